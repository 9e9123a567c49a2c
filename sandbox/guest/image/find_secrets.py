"""Did an installation write a secret of the package index to the disk? Exit code 66 if it did.

It runs inside the build container, last, with the same environment as the steps before it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.guest.spellings import SecretFinder

NAMES = "CAPUCHIN_SECRET_NAMES"
ROOTS = ("/testbed", "/opt", "/tmp", "/var/tmp")  # noqa: S108
CHUNK = 1 << 20


def main() -> int:
    environ = os.environ  # noqa: TID251 - the build container's own
    values = [environ[name].encode() for name in environ.get(NAMES, "").split(",") if name]
    sys.path.insert(0, "/opt/capuchin")
    from sandbox.guest.spellings import SecretFinder

    parts = [part for value in values for part in (value, url_password(value)) if part]
    finder = SecretFinder(part.decode("utf-8", "replace") for part in parts)
    for path in regular_files(ROOTS):
        if contains_secret(path, finder):
            sys.stdout.write(f"{path} holds a secret of the package index\n")
            return 66
    return 0


def url_password(value: bytes) -> bytes:
    """The password in an address; empty without one."""
    return value.partition(b"://")[2].rpartition(b"@")[0].partition(b":")[2]


def regular_files(roots: tuple[str, ...]) -> Iterator[Path]:
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path


def contains_secret(path: Path, finder: SecretFinder) -> bool:
    """Whether a file holds a secret; packed text only in one that is not large."""
    longest = 4 * max(map(len, finder.spellings), default=1)
    before = b""
    try:
        with path.open("rb") as source:
            while chunk := source.read(CHUNK):
                window = before + chunk
                if finder.finds(window):
                    return True
                if not before and len(chunk) < CHUNK and finder.holds_packed(chunk):
                    return True
                before = window[-longest:]
    except PermissionError:
        return False  # root's, of the base image
    return False


if __name__ == "__main__":
    sys.exit(main())
