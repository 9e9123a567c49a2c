"""Diffs made by git, applied to the checkout before the program runs."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.errors import PatchRejected
from sandbox.execution.session import SandboxSession
from sandbox.program import Program
from tests.support.data.diffs import added_file
from tests.support.docker import PACKAGE, PACKAGE_FIX, Execute

ADD_ONE = PACKAGE_FIX.replace("a - b", "a + b").replace(
    "+    return a + b", "+    return a + b + 1"
)
SHOW = "import shop; print(shop.total(3, 1))"


@pytest.fixture
def made_by_git(tmp_path: Path) -> Callable[[Callable[[Path], object]], str]:
    """What `git diff` says after a change of the package."""

    def git(*argv: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *argv]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        return done.stdout.decode("utf-8", "surrogateescape")

    def diff(change: Callable[[Path], object]) -> str:
        for name, text in PACKAGE.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(text.encode())
        git("init", "-q")
        git("add", "--all")
        git("commit", "-qm", "base")
        change(tmp_path / "src/shop")
        git("add", "--all")
        return git("diff", "--cached", "--binary", "--find-renames")

    return diff


@pytest.mark.spine
async def test_a_diff_is_applied_and_the_next_run_sees_none_of_it(execute: Execute) -> None:
    assert (await execute(SHOW, diffs=[PACKAGE_FIX])).output == "4\n"
    assert (await execute(SHOW)).output == "2\n"


async def test_diffs_are_applied_in_order(execute: Execute) -> None:
    assert (await execute(SHOW, diffs=[PACKAGE_FIX, "", ADD_ONE])).output == "5\n"


async def test_a_diff_that_does_not_apply_is_rejected_in_gits_words(execute: Execute) -> None:
    with pytest.raises(
        PatchRejected, match=r"Diff 2 of 2: error: patch failed: src/shop/total.py:1"
    ):
        await execute("print('never')", diffs=[PACKAGE_FIX, PACKAGE_FIX])


@pytest.mark.parametrize(
    "diff",
    [
        "no diff at all",
        PACKAGE_FIX.replace("src/shop", "../../etc"),
        PACKAGE_FIX.replace("@@ -1,2", "@@ -1,9"),
    ],
)
async def test_nonsense_and_paths_outside_are_rejected(sandbox: SandboxSession, diff: str) -> None:
    with pytest.raises(PatchRejected):
        await sandbox.run(Program(["true"], diffs=[diff]))


def edit(name: str, old: bytes, new: bytes) -> Callable[[Path], object]:
    return lambda shop: (shop / name).write_bytes((shop / name).read_bytes().replace(old, new))


def nothing_but(name: str, content: bytes) -> str:
    return f"open('src/shop/{name}', 'rb').read() == {content!r}"


Change = tuple[Callable[[Path], object], str]
CHANGES: dict[str, Change] = {
    "new file": (
        lambda shop: (shop / "new.py").write_text("Y = 2\n"),
        nothing_but("new.py", b"Y = 2\n"),
    ),
    "new folder": (
        lambda shop: ((shop / "deep").mkdir(), (shop / "deep/n.py").write_text("")),
        nothing_but("deep/n.py", b""),
    ),
    "rename": (
        lambda shop: (shop / "total.py").rename(shop / "sum.py"),
        "os.path.isfile('src/shop/sum.py') and not os.path.exists('src/shop/total.py')",
    ),
    "delete": (lambda shop: (shop / "dos.py").unlink(), "not os.path.exists('src/shop/dos.py')"),
    "windows line ends": (
        edit("dos.py", b"dos", b"cr"),
        nothing_but("dos.py", b"WORD = 'cr'\r\nOTHER = 'line'\r\n"),
    ),
    "no newline at the end": (
        edit("no_newline.py", b"1", b"2"),
        nothing_but("no_newline.py", b"X = 2"),
    ),
    "bytes": (
        lambda shop: (shop / "b.bin").write_bytes(bytes(range(256))),
        nothing_but("b.bin", bytes(range(256))),
    ),
    "latin-1": (
        lambda shop: (shop / "l.py").write_bytes(b"# \xe9\n"),
        nothing_but("l.py", b"# \xe9\n"),
    ),
    "odd name": (
        lambda shop: (shop / "a b\u00e9.py").write_text("1"),
        nothing_but("a b\u00e9.py", b"1"),
    ),
    "mode": (
        lambda shop: (shop / "total.py").chmod(0o755),
        "os.access('src/shop/total.py', os.X_OK)",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_every_kind_of_change_that_git_knows_arrives(
    execute: Execute, made_by_git: Callable[[Callable[[Path], object]], str], name: str
) -> None:
    change, holds = CHANGES[name]
    run = await execute(f"import os\nprint({holds})", diffs=[made_by_git(change)])
    assert run.output == "True\n"


async def test_a_tree_that_looks_like_a_git_repository_configures_nothing(
    sandbox: SandboxSession,
) -> None:
    """`HEAD`, `objects`, `refs` and `config` in the root would make it a bare repository to git."""
    planted = {
        "HEAD": "ref: refs/heads/main",
        "objects/x": "\n",
        "refs/x": "\n",
        "config": "[apply] ignorewhitespace = change",
    }
    plant = "".join(added_file(name, text) for name, text in planted.items())
    loose = PACKAGE_FIX.replace("    return a - b", "  return a   - b")
    with pytest.raises(PatchRejected, match="patch does not apply"):
        await sandbox.run(Program(["true"], diffs=[plant, loose]))
