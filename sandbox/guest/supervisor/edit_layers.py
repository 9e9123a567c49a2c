"""Edits as overlay layers: each is applied once, then lies read-only over its tree."""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from typing import Final

from sandbox.guest.supervisor.apply_edit import GIT_ENVIRONMENT
from sandbox.guest.supervisor.mounts import STATE

FOLDER: Final = STATE + "/deltas"
MOST_DELTAS: Final = 256
LEAST_FREE: Final = 0.25
"""The share of the lane's memory for edits below which the oldest are forgotten."""
WORTH_COMPILING: Final = 0.15
"""Processor seconds of an execution above which it may well have compiled what it imports: the next
one of the same edit shall not do so again. Python alone starts in a fraction of that."""


class Delta:
    """An edit that was made."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.is_compiled = False
        self._longest = 0.0

    @property
    def layer(self) -> str:
        """Where its changed files lie."""
        return self.folder + "/u"

    @property
    def is_worth_compiling(self) -> bool:
        return not self.is_compiled and self._longest > WORTH_COMPILING

    def was_run(self, cpu_seconds: float) -> None:
        self._longest = max(self._longest, cpu_seconds)


class Deltas:
    """The edits that this lane holds, by the names that the host gives them."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Delta] = OrderedDict()
        self._made = 0
        os.mkdir(FOLDER, 0o700)  # noqa: PTH102

    def find(self, name: str) -> Delta | None:
        """An edit that was kept before."""
        if name in self._known:
            self._known.move_to_end(name)
        return self._known.get(name)

    def fresh(self) -> Delta:
        """A new folder for an edit to be made in. Room is made first."""
        while self._known and self._is_full():
            _, oldest = self._known.popitem(last=False)
            remove(oldest)
        self._made += 1
        delta = Delta(f"{FOLDER}/{self._made}")
        os.mkdir(delta.folder, 0o700)  # noqa: PTH102
        return delta

    def keep(self, name: str, delta: Delta) -> None:
        self._known[name] = delta

    def _is_full(self) -> bool:
        status = os.statvfs(STATE)
        free = min(status.f_bavail / status.f_blocks, status.f_favail / status.f_files)
        return len(self._known) >= MOST_DELTAS or free < LEAST_FREE


def remove(delta: Delta) -> None:
    """Take an edit away, whatever it holds; links are not followed."""
    with contextlib.suppress(OSError):
        os.chmod(f"{delta.folder}/w/work", 0o700)  # noqa: PTH101 - overlayfs makes it unreadable
    # A program of its own: paths of any depth, and none of them in our memory.
    argv = ["rm", "-rf", "--", delta.folder]
    os.waitpid(os.posix_spawnp("rm", argv, GIT_ENVIRONMENT), 0)
