"""Repositories that are small in git and large in every other way: equal parts are one object."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path


def git(git_dir: Path, *args: str, given: bytes = b"") -> str:
    """What a plumbing command prints."""
    person = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}  # fmt: skip # noqa: E501
    done = subprocess.run(
        ["git", f"--git-dir={git_dir}", *args],
        input=given,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", **person},
        check=True,
        capture_output=True,
    )
    return done.stdout.decode().strip()


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
