"""Reads and writes git's objects in files of their own, without starting git.

https://git-scm.com/docs/gitrepository-layout (`objects/[0-9a-f][0-9a-f]`)
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import zlib
from pathlib import Path

FULL_SHA = re.compile(r"[0-9a-f]{40}")
_MOST_BYTES = 1024 * 1024
"""Of an object that is read."""


def read_object(repository: Path, sha: str) -> tuple[str, bytes] | None:
    """Kind and content; None: the object is large, elsewhere (in a pack) or nowhere."""
    if not FULL_SHA.fullmatch(sha):
        return None
    try:
        with (repository / "objects" / sha[:2] / sha[2:]).open("rb") as file:
            data = zlib.decompressobj().decompress(file.read(_MOST_BYTES), _MOST_BYTES)
    except (OSError, zlib.error):
        return None
    head, _, content = data.partition(b"\0")
    kind, _, size = head.decode("ascii", "replace").partition(" ")
    return (kind, content) if size == str(len(content)) else None


def write_object(repository: Path, kind: str, content: bytes) -> str:
    """Store an object, as it is, and return its id."""
    data = b"%s %d\0" % (kind.encode(), len(content)) + content
    sha = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    place = repository / "objects" / sha[:2] / sha[2:]
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            file.write(zlib.compress(data, level=1))
        Path(file.name).replace(place)
    return sha
