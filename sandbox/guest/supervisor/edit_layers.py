"""Edits as overlay layers: each is applied once, then mounted read-only over its tree."""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from typing import Final

from sandbox.guest.supervisor.apply_edit import GIT_ENVIRONMENT
from sandbox.guest.supervisor.mounts import STATE

LAYERS_FOLDER: Final = STATE + "/deltas"
MAX_LAYERS: Final = 256
MIN_FREE_SHARE: Final = 0.25
"""The share of free memory for edits below which the oldest are removed."""


class EditLayer:
    """An edit that was made."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.is_built = False
        self.unbuilt: dict[str, object] = {}
        """The report of a build that failed; empty for one that did not."""

    @property
    def upper(self) -> str:
        """Where its changed files are."""
        return self.folder + "/u"


class EditLayers:
    """The edits of this container, by the names that the host gives them."""

    def __init__(self) -> None:
        self._layers: OrderedDict[str, EditLayer] = OrderedDict()
        self._created = 0
        os.mkdir(LAYERS_FOLDER, 0o700)  # noqa: PTH102

    def find(self, name: str) -> EditLayer | None:
        """An edit that was stored before."""
        if name in self._layers:
            self._layers.move_to_end(name)
        return self._layers.get(name)

    def create(self) -> EditLayer:
        """A new folder to make an edit in, after removing old edits if necessary."""
        while self._layers and self._is_full():
            _, oldest = self._layers.popitem(last=False)
            remove_layer(oldest)
        self._created += 1
        layer = EditLayer(f"{LAYERS_FOLDER}/{self._created}")
        os.mkdir(layer.folder, 0o700)  # noqa: PTH102
        return layer

    def store(self, name: str, layer: EditLayer) -> None:
        self._layers[name] = layer

    def _is_full(self) -> bool:
        status = os.statvfs(STATE)
        free = min(status.f_bavail / status.f_blocks, status.f_favail / status.f_files)
        return len(self._layers) >= MAX_LAYERS or free < MIN_FREE_SHARE


def remove_layer(layer: EditLayer) -> None:
    """Remove an edit with all its content; does not follow links."""
    with contextlib.suppress(OSError):
        os.chmod(f"{layer.folder}/w/work", 0o700)  # noqa: PTH101 - overlayfs makes it unreadable
    # A separate program: it handles paths of any depth, and uses none of our memory.
    argv = ["rm", "-rf", "--", layer.folder]
    os.waitpid(os.posix_spawnp("rm", argv, GIT_ENVIRONMENT), 0)
