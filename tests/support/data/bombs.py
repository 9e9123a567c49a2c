"""Repositories that are small in git and large in every other way: equal parts are one object."""

from collections.abc import Sequence
from pathlib import Path

from tests.support.data.local_git import git


def commit_bomb(
    git_dir: Path, *, content: bytes = b"x = 1\n", widths: Sequence[int], parent: str = ""
) -> str:
    """A commit in which the file `content` lies at as many paths as the product of `widths`."""
    blob = git(git_dir, "hash-object", "-w", "--stdin", given=content)
    kind, found = "100644 blob", blob
    for width in widths:
        lines = "".join(f"{kind} {found}\tp{number:05}.py\n" for number in range(width))
        found, kind = git(git_dir, "mktree", given=lines.encode()), "040000 tree"
    parents = ("-p", parent) if parent else ()
    return git(git_dir, "commit-tree", found, *parents, "-m", "x")
