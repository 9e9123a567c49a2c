"""Edits as overlay layers: each is applied once, then lies read-only over its tree."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from sandbox.supervisor.edit import GIT_ENVIRONMENT
from sandbox.supervisor.world import STATE

FOLDER: Final = STATE + "/deltas"
MOST_DELTAS: Final = 256
LEAST_FREE: Final = 0.25
"""The share of the lane's memory for edits below which the oldest are forgotten."""


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


def remove(folder: str) -> None:
    """Take a folder away, whatever it holds; links are not followed."""
    with contextlib.suppress(OSError):
        os.chmod(f"{folder}/w/work", 0o700)  # noqa: PTH101 - overlayfs makes it unreadable
    # A program of its own: paths of any depth, and none of them in our memory.
    os.waitpid(os.posix_spawnp("rm", ["rm", "-rf", "--", folder], GIT_ENVIRONMENT), 0)
