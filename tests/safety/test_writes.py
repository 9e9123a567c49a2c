"""Code that writes where it should not: the image, other edits, other tests, git's own files."""

import pytest

from sandbox.errors import PatchRejected
from sandbox.execution.session import SandboxSession
from sandbox.program import Program
from tests.support.data.diffs import added_file
from tests.support.docker import PACKAGE_FIX, Execute
from tests.support.own_docker_daemon import OwnDaemon
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

SHOW = "import shop; print(shop.total(3, 1))"
OTHER = "--- /dev/null\n+++ b/other.py\n@@ -0,0 +1 @@\n+OTHER = 1\n"


async def test_no_path_takes_a_write_but_the_three_that_are_its_own(
    execute: Execute, gvisor: OwnDaemon | None
) -> None:
    run = await execute(TEXTS["EVERY_PATH"])
    own = {"FILE /dev/net/tun"} if gvisor else set[str]()  # of its kernel, as the network is
    assert set(run.output.splitlines()) == own


async def test_other_edits_and_other_tests_are_out_of_reach(execute: Execute) -> None:
    """Process 1 and the program have one uid: only the covered folder separates them."""
    assert (await execute(SHOW, diffs=[PACKAGE_FIX])).output == "4\n"
    run = await execute(TEXTS["OTHER_EDITS"], diffs=[OTHER])
    assert run.output == "[]\n"
    assert (await execute(SHOW + " ", diffs=[PACKAGE_FIX])).output == "4\n"
    kept = await execute("import other; print(other.OTHER)", diffs=[OTHER])
    assert kept.output == "1\n"


@pytest.mark.parametrize(
    "path", [".git/hooks/post-checkout", ".git/config", "../outside", "/tmp/outside", "a/../../b"]
)
async def test_a_diff_cannot_write_gits_own_files_or_outside(
    sandbox: SandboxSession, path: str
) -> None:
    diff = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(PatchRejected):
        await sandbox.run(Program(["true"], diffs=[diff]))


async def test_a_diff_cannot_write_through_a_link_of_another(sandbox: SandboxSession) -> None:
    link = """\
diff --git a/way b/way
new file mode 120000
--- /dev/null
+++ b/way
@@ -0,0 +1 @@
+/opt/tree/src/shop
\\ No newline at end of file
"""
    through = OTHER.replace("other.py", "way/planted.py")
    with pytest.raises(PatchRejected, match="beyond a symbolic link"):
        await sandbox.run(Program(["true"], diffs=[link, through]))


async def test_links_lead_nowhere(execute: Execute) -> None:
    """Neither to a file that it must not read, nor to one that others see too."""
    assert (await execute(SHOW, diffs=[PACKAGE_FIX])).output == "4\n"
    run = await execute(TEXTS["LINKS"])
    assert run.output == ""


async def test_filters_hooks_and_configuration_of_the_checkout_run_nowhere(
    sandbox: SandboxSession,
) -> None:
    evil = "touch /testbed/ran /tmp/ran; cat"
    # What git accepts as a repository without a folder called .git.
    config = f"""[core]
bare = false
worktree = /testbed
fsmonitor = {evil}
[filter "evil"]
clean = "{evil}"
smudge = "{evil}"
"""
    planted = {
        ".gitattributes": "*.py filter=evil diff=evil\n",
        "HEAD": "ref: refs/heads/main\n",
        "objects/x": "\n",
        "refs/x": "\n",
        "config": config,
        "hooks/applypatch-msg": evil + "\n",
    }
    plant = "".join(added_file(name, text) for name, text in planted.items())
    run = await sandbox.run(
        Program(
            [
                "sh",
                "-c",
                "for at in ran /tmp/ran; do test -e $at && echo RAN; done; cat src/shop/total.py",
            ],
            diffs=[plant, PACKAGE_FIX],
        )
    )
    assert "return a + b" in run.output
    assert "RAN" not in run.output
