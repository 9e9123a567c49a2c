"""What a command leaves in its checkout, as every engine reports it."""

import dataclasses

from sandbox.execution.session import SandboxSession
from sandbox.layout import CHECKOUT
from sandbox.program import Change, Ending, shell_command
from tests.support.docker import PACKAGE_FIX


async def test_a_command_reports_its_output_its_exit_code_and_what_it_changed(
    sandbox: SandboxSession,
) -> None:
    run = await sandbox.run_command(
        shell_command(
            """
set -e
python - <<'END'
from pathlib import Path
import shop
path = Path("src/shop/total.py")
path.write_text(path.read_text().replace("a - b", "a + b"))
END
mv src/shop/dos.py src/shop/windows.py
mkdir -p docs/deep && printf 'new' > docs/deep/note.txt && chmod +x docs/deep/note.txt
ln -s total.py src/shop/sum.py
rm -r tests && mkdir tests
touch src/shop/no_newline.py
echo done; exit 7
"""
        )
    )
    assert (run.exit_code, run.output, run.lost) == (7, "done\n", "")
    assert run.changes is not None
    changed = {change.path: change for change in run.changes}
    fixed = b"def total(a, b):\n    return a + b\n"
    assert changed == {
        "docs/deep/note.txt": Change(path="docs/deep/note.txt", content=b"new", mode="100755"),
        "src/shop/dos.py": Change(path="src/shop/dos.py", was_there=True),
        "src/shop/sum.py": Change(path="src/shop/sum.py", content=b"total.py", mode="120000"),
        "src/shop/total.py": Change(path="src/shop/total.py", content=fixed, was_there=True),
        "src/shop/windows.py": Change(
            path="src/shop/windows.py", content=b"WORD = 'dos'\r\nOTHER = 'line'\r\n"
        ),
        "tests/test_total.py": Change(path="tests/test_total.py", was_there=True),
    }


async def test_the_changes_include_the_edits_that_the_command_ran_on(
    sandbox: SandboxSession,
) -> None:
    looked = await sandbox.run_command(shell_command("cat src/shop/total.py", diffs=[PACKAGE_FIX]))
    assert looked.changes is not None
    assert [(c.path, c.content) for c in looked.changes] == [
        ("src/shop/total.py", b"def total(a, b):\n    return a + b\n")
    ]
    undone = await sandbox.run_command(
        shell_command("sed -i 's/a + b/a - b/' src/shop/total.py", diffs=[PACKAGE_FIX])
    )
    assert undone.changes == ()
    again = await sandbox.run_command(shell_command("cat src/shop/total.py"))
    assert again.output.endswith("return a - b\n")
    assert again.changes == ()


async def test_files_put_into_the_checkout_are_there_for_the_command_and_count_as_changes(
    sandbox: SandboxSession,
) -> None:
    command = shell_command(
        "sh .scratch/tool.sh; echo more >> .scratch/tool.sh", diffs=[PACKAGE_FIX]
    )
    tool = {f"{CHECKOUT}/.scratch/tool.sh": "echo here\n"}
    run = await sandbox.run_command(dataclasses.replace(command, files={**command.files, **tool}))
    assert (run.exit_code, run.output) == (0, "here\n")
    found = {one.path: one.content for one in run.changes or ()}
    assert found[".scratch/tool.sh"] == b"echo here\nmore\n"


async def test_a_command_that_is_killed_changes_nothing(sandbox: SandboxSession) -> None:
    run = await sandbox.run_command(shell_command("echo x > new; sleep 100", seconds=1))
    assert (run.ending, run.changes) == (Ending.TIMEOUT, None)
    assert run.lost == "It was killed because it ran too long."


async def test_the_end_of_the_long_output_of_a_command_is_kept(sandbox: SandboxSession) -> None:
    run = await sandbox.run_command(
        shell_command("seq 100000; echo x > new; echo the end; exit 3", output_bytes=1000)
    )
    assert (run.exit_code, run.lost) == (3, "")
    assert run.output.startswith("1\n2\n")
    assert run.output.endswith("100000\nthe end\n")
    assert len(run.output) < 1200
    assert [change.path for change in run.changes or ()] == ["new"]
