"""The recent commits of a repository, as far as the clone has them: shows what changes together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed, git

MOST_COMMITS = 50
"""How many are read."""
FETCHED_COMMITS = 300
"""How many commits back a clone goes: the commit that fixed an issue is looked for among them."""
MOST_PATHS = 60
"""A commit that changes more files does not show which belong together."""
SECONDS = 20.0
_LOG = (
    f"--max-count={MOST_COMMITS}",
    "--no-merges",
    "--no-renames",
    "--name-only",
    "-z",
    "--format=%x01%s%x02",
)


@dataclass(frozen=True)
class PastCommit:
    """One commit with the files it changes."""

    subject: str
    """Its first line. Untrusted."""
    paths: frozenset[str]


async def read_log(codebase: Codebase, *options: str, paths: Iterable[str] = ()) -> bytes:
    """What `git log` says of the commit and those before it, only of `paths` if there are any.

    Every edit of a file asks for the same log, so it is kept.

    Raises:
        GitFailed: git cannot read it.
    """
    words = ("log", *options, codebase.commit, "--", *paths)
    key = "\0".join(words)
    output = codebase.recent.get(key)
    if output is None:
        output = await git(codebase.git_dir, *words)
        codebase.recent.add(key, output)
    return output


async def read_history(codebase: Codebase) -> tuple[PastCommit, ...]:
    """The recent commits in the clone, newest first; empty if git is too slow."""
    if not codebase.commit:
        return ()
    try:
        output = await asyncio.wait_for(read_log(codebase, *_LOG), SECONDS)
    except (GitFailed, TimeoutError):
        return ()
    commits: list[PastCommit] = []
    for part in output.decode("utf-8", "replace").split("\x01")[1:]:
        subject, _, names = part.partition("\x02")
        paths = frozenset(name.strip("\n") for name in names.split("\0")) - {""}
        commits.append(PastCommit(" ".join(subject.split())[:200], paths))
    # The oldest commit of a shallow clone appears to add every file.
    return tuple(commit for commit in commits if 0 < len(commit.paths) <= MOST_PATHS)


def count_changes_together(history: Sequence[PastCommit], paths: Iterable[str], other: str) -> int:
    """The number of commits in which `other` changed together with one of `paths`."""
    wanted = frozenset(paths)
    return sum(other in commit.paths and bool(wanted & commit.paths) for commit in history)
