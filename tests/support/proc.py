"""What the kernel tells of this machine's processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def read_processes(name: str) -> Iterator[tuple[Path, bytes]]:
    """The file `name` of every process, with its path.

    A process may end at any moment. `Path.glob` asks whether the file is there, and fails then.
    """
    for path in _find(name):
        with suppress(OSError):
            yield path, path.read_bytes()


def read_links(name: str) -> Iterator[tuple[Path, str]]:
    """Where the link `name` of every process leads, with its path."""
    for path in _find(name):
        with suppress(OSError):
            yield path, str(path.readlink())


def _find(name: str) -> list[Path]:
    return [folder / name for folder in Path("/proc").iterdir() if folder.name.isdecimal()]
