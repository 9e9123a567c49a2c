"""What the kernel tells of this machine's processes."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def read_processes(name: str) -> Iterator[tuple[Path, bytes]]:
    """The file `name` of every process, with its path.

    A process may end at any moment. `Path.glob` asks whether the file is there, and fails then.
    """
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                yield folder / name, (folder / name).read_bytes()
