"""Edits as overlay layers: each is applied once, then lies read-only over its tree."""

from __future__ import annotations

import contextlib
import hashlib
import os
import py_compile
import re
import resource
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from sandbox.supervisor.world import STATE

FOLDER: Final = STATE + "/deltas"
MOST_DELTAS: Final = 256
LEAST_FREE: Final = 0.25
"""The share of the lane's memory for edits below which the oldest are forgotten."""
REJECTED: Final = 3
INPUT: Final = "/tmp/diff"  # noqa: S108 - a file system of the world's own
WORDS: Final = "/tmp/words"  # noqa: S108
SOURCE: Final = re.compile(r"^\+\+\+ b/(.+\.py)$", re.MULTILINE)
COMPILE_SECONDS: Final = 20
GIT_ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    # A repository that is not there: git must not read configuration out of the checkout.
    "GIT_DIR": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Deltas:
    """The edits that this lane holds, by what they are made of."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()
        self._made = 0
        os.mkdir(FOLDER, 0o700)  # noqa: PTH102

    def find(self, diffs: Sequence[str]) -> str | None:
        """The folder of an edit that was kept before."""
        key = key_of(diffs)
        if key in self._known:
            self._known.move_to_end(key)
        return self._known.get(key)

    def fresh(self) -> str:
        """A new folder for an edit to be made in. Room is made first."""
        while self._known and self._is_full():
            _, oldest = self._known.popitem(last=False)
            remove(oldest)
        self._made += 1
        folder = f"{FOLDER}/{self._made}"
        os.mkdir(folder, 0o700)  # noqa: PTH102
        return folder

    def keep(self, diffs: Sequence[str], folder: str) -> None:
        self._known[key_of(diffs)] = folder

    def _is_full(self) -> bool:
        status = os.statvfs(STATE)
        free = min(status.f_bavail / status.f_blocks, status.f_favail / status.f_files)
        return len(self._known) >= MOST_DELTAS or free < LEAST_FREE


def key_of(diffs: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for diff in diffs:
        data = diff.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def layer(folder: str) -> str:
    """Where the changed files of an edit lie."""
    return folder + "/u"


def applying(diffs: Sequence[str], checkout: str) -> Callable[[], int]:
    """The work that makes an edit, inside a world of its own. It prints why a diff is refused."""

    def work() -> int:
        for number, diff in enumerate(diffs, start=1):
            if diff.strip() and git_apply(diff):
                os.write(1, f"Diff {number} of {len(diffs)}: ".encode() + Path(WORDS).read_bytes())
                return REJECTED
        child = os.fork()
        if child == 0:
            compile_sources(diffs, checkout)
            os._exit(0)
        os.waitpid(child, 0)
        return 0

    return work


def git_apply(diff: str) -> int:
    Path(INPUT).write_bytes(diff.encode("utf-8", "surrogateescape"))
    argv = ["git", "apply", "--whitespace=nowarn", INPUT]
    says = [(os.POSIX_SPAWN_OPEN, 2, WORDS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
    pid = os.posix_spawnp("git", argv, GIT_ENVIRONMENT, file_actions=says)
    return os.waitpid(pid, 0)[1]


def compile_sources(diffs: Sequence[str], checkout: str) -> None:
    """Runs nothing of what it compiles, and saves the compilation to every execution of the edit.

    Best effort: a source that does not compile, or takes for ever, is none of our business.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (COMPILE_SECONDS, COMPILE_SECONDS))
    for name in dict.fromkeys(name for diff in diffs for name in SOURCE.findall(diff)):
        with contextlib.suppress(OSError, ValueError):
            py_compile.compile(f"{checkout}/{name}", quiet=2)


def remove(folder: str) -> None:
    """Take a folder away, whatever it holds; links are not followed."""
    with contextlib.suppress(OSError):
        os.chmod(f"{folder}/w/work", 0o700)  # noqa: PTH101 - overlayfs makes it unreadable
    # A program of its own: paths of any depth, and none of them in our memory.
    os.waitpid(os.posix_spawnp("rm", ["rm", "-rf", "--", folder], GIT_ENVIRONMENT), 0)
