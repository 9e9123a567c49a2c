"""Lists the modules of a checkout that are worth compiling, each name followed by a zero byte.

A test may read or count all files of a folder: data, and packages below the tests or the examples,
stay as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

LARGEST = 2 * 1024 * 1024
"""Source of more bytes is data: compiling takes minutes and many times its size in memory."""
ROOTS = ("", "src", "lib")
"""Where modules stand outside of packages."""
LEFT_OUT = {"test", "tests", "testing", "doc", "docs", "example", "examples", "fixtures"}
"""Folders at the top."""


def main(argv: list[str]) -> int:
    for path in list_sources(Path(argv[1])):
        sys.stdout.buffer.write(os.fsencode(path) + b"\0")
    return 0


def list_sources(checkout: Path) -> Iterator[Path]:
    roots = {checkout / name for name in ROOTS}
    for top, folders, names in os.walk(checkout):
        folder = Path(top)
        if folder == checkout:
            folders[:] = [name for name in folders if name not in LEFT_OUT]
        if folder in roots or "__init__.py" in names:
            paths = (folder / name for name in names if name.endswith(".py"))
            yield from (p for p in paths if p.is_file() and p.stat().st_size <= LARGEST)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
