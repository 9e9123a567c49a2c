"""Edits as other people send them, read by git and written anew."""

import base64
import hashlib
import json
import re
import zlib
from pathlib import Path

import pytest

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.edits.external import LARGEST, ExternalEdit, ImportedEdits, diff_commits, import_edits
from pipeline.languages.python.source import to_test_script
from pipeline.languages.registry import detect_conventions
from tests.support.data import local_git
from tests.support.data.bombs import commit_bomb

FILES = {
    "shop.py": b"def total(a, b):\n    return a - b\n",
    "dos.py": b"a = 1\r\nb = 2\r\nc = 3\r\n",
    "latin.txt": "caf\u00e9\n".encode("latin-1"),
    "tool.sh": b"#!/bin/sh\n",
    "tests/test_shop.py": b"def test_x():\n    pass\n",
}
RIGHT = FILES["shop.py"].replace(b"-", b"+")


class Repo:
    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.base = local_git.repository(folder, FILES)

    def changed(self, files: dict[str, bytes], *, rename: tuple[str, str] | None = None) -> str:
        """A commit beside the base's branch."""
        local_git.git(self.path, "checkout", "--quiet", "--detach", self.base)
        if rename:
            local_git.git(self.path, "mv", *rename)
        head = local_git.committed(self.path, files)
        local_git.git(self.path, "checkout", "--quiet", "main")
        return head

    async def diff(self, head: str, *options: str) -> bytes:
        return await git(self.path / ".git", "diff", *options, self.base, head)

    async def adopt(self, *diffs: bytes) -> ImportedEdits:
        codebase = await Codebase.open(self.path / ".git", self.base)
        edits = [ExternalEdit(f"e{number}", diff) for number, diff in enumerate(diffs)]
        return await import_edits(codebase, edits, await detect_conventions(codebase))

    async def tree(self, diff: str) -> str:
        """The tree that the diff makes, by plain `git apply`."""
        env = {"GIT_INDEX_FILE": str(self.path / ".git" / "scratch-index")}
        where = self.path / ".git"
        await git(where, "read-tree", self.base, env=env)
        await git(where, "apply", "--cached", "-", input=diff.encode(), env=env)
        return (await git(where, "write-tree", env=env)).decode().strip()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


async def test_renames_binary_parts_modes_and_encodings_come_through_whole(repo: Repo) -> None:
    (repo.path / "tool.sh").chmod(0o755)
    files = {
        "store.py": RIGHT,
        "logo.png": bytes(range(256)),
        "latin.txt": "caff\u00e8\n".encode("latin-1"),
        "tool.sh": b"#!/bin/sh\n",
    }
    head = repo.changed(files, rename=("shop.py", "store.py"))
    local_git.git(repo.path, "checkout", "--quiet", "--detach", head)
    (repo.path / "tool.sh").chmod(0o755)
    head = local_git.committed(repo.path, {})
    found = await repo.adopt(await repo.diff(head, "-M", "--binary", "--full-index"))
    (candidate,) = found.candidates
    assert (found.rejected, candidate.source, candidate.name) == ((), "e0", "e0")
    tree = await git(repo.path / ".git", "rev-parse", f"{head}^{{tree}}")
    assert await repo.tree(candidate.patch.diff) == tree.decode().strip()
    assert "old mode 100644\nnew mode 100755" in candidate.patch.diff
    assert "rename from" not in candidate.patch.diff


async def test_line_ends_that_a_mail_has_changed_are_put_right(repo: Repo) -> None:
    unix = await repo.diff(repo.changed({"shop.py": RIGHT}))
    dos = await repo.diff(repo.changed({"dos.py": b"a = 1\r\nb = 9\r\nc = 3\r\n"}))
    found = await repo.adopt(dos, unix.replace(b"\n", b"\r\n"), dos.replace(b"\r\n", b"\n"))
    assert found.rejected == ()
    trees = [await repo.tree(c.patch.diff) for c in found.candidates]
    assert trees[0] == trees[2]
    assert "\r" not in found.candidates[1].patch.diff


HUNK = b"@@ -1,2 +1,2 @@\n def total(a, b):\n-    return a - b\n+    return a + b\n"


@pytest.mark.parametrize(
    "diff",
    [
        b"--- shop.py\n+++ shop.py\n" + HUNK,
        b"diff --git i/shop.py w/shop.py\n--- i/shop.py\n+++ w/shop.py\n" + HUNK,
        b"Index: shop.py\n=====\n--- shop.py\t(revision 1)\n+++ shop.py\t(working copy)\n" + HUNK,
        b"diff -ru old/shop.py new/shop.py\n--- old/shop.py\t2024-01-01\n+++ new/shop.py\n" + HUNK,
        b"--- shop.py.orig\t2024-01-01 00:00:00 +0000\n+++ shop.py\n" + HUNK,
        b"```diff\n--- a/shop.py\n+++ b/shop.py\n" + HUNK + b"```\n",
        b"--- a/shop.py\n+++ b/shop.py\n" + HUNK.rstrip(),
        b"\x1b[1m--- a/shop.py\x1b[m\n\x1b[1m+++ b/shop.py\x1b[m\n"
        + HUNK.replace(b"\n", b"\x1b[m\n"),
    ],
)
async def test_a_diff_is_read_as_tools_and_terminals_write_it(repo: Repo, diff: bytes) -> None:
    found = await repo.adopt(diff)
    assert "+    return a + b" in found.candidates[0].patch.diff


async def test_what_cannot_take_part_is_reported_with_the_reason(repo: Repo) -> None:
    good = await repo.diff(repo.changed({"shop.py": RIGHT}))
    named = await repo.diff(repo.changed({"logo.png": bytes(range(256))}))
    own = b"--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n"
    escaping = own.replace(b".git/hooks/x", b"../x.py")
    words = b"I would change the sign in total()."
    wrong = good.replace(b"return a - b", b"return b - a")
    large = b"x" * (LARGEST + 1)
    found = await repo.adopt(wrong, named, escaping, own, words, b" \n", large, good)
    assert [c.sample for c in found.candidates] == [7]
    why = [one.why for one in found.rejected]
    assert "shop.py: patch does not apply" in why[0]
    assert "without full index line" in why[1]
    assert "invalid path" in why[2]
    assert "invalid path" in why[3]
    assert "No valid patches" in why[4]
    assert why[5:] == ["It changes nothing.", "It is larger than 8 MiB."]


async def test_submodules_are_left_out_and_links_are_data(repo: Repo) -> None:
    head = repo.changed({"shop.py": RIGHT})
    where = repo.path / ".git"
    env = {"GIT_INDEX_FILE": str(where / "scratch-index")}
    await git(where, "read-tree", head, env=env)
    blob = await git(where, "hash-object", "-w", "--stdin", input=b"/etc/shadow")
    lines = f"120000 {blob.decode().strip()}\tlink\n160000 {'1' * 40}\tvendor\n"
    await git(where, "update-index", "--index-info", input=lines.encode(), env=env)
    tree = (await git(where, "write-tree", env=env)).decode().strip()
    found = await repo.adopt(await git(where, "diff", repo.base, tree))
    (candidate,) = found.candidates
    assert found.notes == ("e0: what it does to submodules is left out.",)
    assert "vendor" not in candidate.patch.diff
    assert "new file mode 120000" in candidate.patch.diff


async def test_an_edit_brings_the_test_files_that_it_adds_or_changes(repo: Repo) -> None:
    test = b"from shop import total\n\n\ndef test_total():\n    assert total(1, 2) == 3\n"
    files = {"shop.py": RIGHT, "tests/test_total.py": test, "tests/data.txt": b"1\n"}
    big = {**files, "tests/data.txt": b"1\n" * 200_000}
    heads = [repo.changed(each) for each in (files, {"shop.py": RIGHT}, big)]
    found = await repo.adopt(*[await repo.diff(head) for head in heads])
    first, second, third = found.candidates
    assert (second.test, third.test) == (None, None)
    assert found.notes == ("e2: its tests are larger than 256 KiB, and were not run.",)
    assert first.test is not None
    literal = re.search(r"json\.loads\((.*)\)$", first.test.text, re.MULTILINE)
    assert literal is not None
    given = json.loads(eval(literal[1], {}))
    assert given["command"][-1] == "tests/test_total.py"
    assert {path: base64.b64decode(text) for path, text in given["files"].items()} == {
        "tests/data.txt": b"1\n",
        "tests/test_total.py": test,
    }


async def test_a_given_test_is_a_script_or_a_test_file(repo: Repo) -> None:
    codebase = await Codebase.open(repo.path / ".git", repo.base)
    conventions, taken = await detect_conventions(codebase), frozenset(codebase.files)
    script = "import sys\nsys.exit(2)\n"
    assert to_test_script("T", script, conventions, taken).text == script
    made = to_test_script("test_shop", "def test_y():\n    pass\n", conventions, taken)
    assert "tests/test_shop_2.py" in made.text


async def test_commits_whose_files_are_too_large_are_not_even_compared(repo: Repo) -> None:
    head = repo.changed({"huge.bin": b"\0" * (LARGEST + 1)})
    edit = await diff_commits(repo.path / ".git", repo.base, head, "#1")
    assert (edit.diff, edit.problem) == (b"", "It is larger than 8 MiB.")


@pytest.mark.parametrize(
    ("width", "content", "problem"),
    [(100, b"x" * 1_000_000, "larger than 8 MiB"), (5_000, b"x", "changes more than 2,000 files")],
)
async def test_a_branch_is_measured_by_its_paths(
    repo: Repo, width: int, content: bytes, problem: str
) -> None:
    head = commit_bomb(repo.path / ".git", content=content, widths=[width], parent=repo.base)
    edit = await diff_commits(repo.path / ".git", repo.base, head, "bomb")
    assert problem in edit.problem
    assert edit.diff == b""


@pytest.mark.parametrize("size", [100_000_000, 700_000_000])
async def test_a_binary_part_that_unpacks_without_end_is_refused(repo: Repo, size: int) -> None:
    packed = zlib.compressobj(9)
    name = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    pieces: list[bytes] = []
    for _ in range(size // 1_000_000):
        name.update(b"\0" * 1_000_000)
        pieces.append(packed.compress(b"\0" * 1_000_000))
    data = b"".join(pieces)
    data += packed.flush()
    lines = [data[at : at + 52] for at in range(0, len(data), 52)]
    body = b"".join(_length_letter(line) + _base85(line) + b"\n" for line in lines)
    diff = (
        b"diff --git a/zeros b/zeros\nnew file mode 100644\nindex "
        + b"0" * 40 + b".." + name.hexdigest().encode()
        + b"\nGIT binary patch\nliteral %d\n%s\nliteral 0\nHcmV?d00001\n\n" % (size, body)
    )  # fmt: skip
    imported = await repo.adopt(diff)
    (rejected,) = imported.rejected
    assert "larger than 64 MiB" in rejected.why


def _length_letter(line: bytes) -> bytes:
    return bytes([ord("A") + len(line) - 1 if len(line) <= 26 else ord("a") + len(line) - 27])


def _base85(line: bytes) -> bytes:
    return base64.b85encode(line, pad=True)
