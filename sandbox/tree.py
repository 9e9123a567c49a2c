"""A checkout as one value, and archives on disk."""

import hashlib
import io
import os
import re
import weakref
from dataclasses import dataclass, field
from typing import IO


class Archive:
    """The content of a temporary file without a name; deleted together with this object."""

    def __init__(self, file: IO[bytes]) -> None:
        """`file`, from `tempfile.TemporaryFile`, may be closed afterwards, but not written to."""
        file.flush()
        self._handle = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._handle)
        self.size_bytes = os.fstat(self._handle).st_size

    def open(self) -> io.BufferedReader:
        """A reader with a position of its own, at the start; several may read at the same time."""
        return io.BufferedReader(_ArchiveReader(self))

    def read_at(self, offset: int, size: int) -> bytes:
        return os.pread(self._handle, size, offset)

    def sha256(self) -> str:
        """In hexadecimal."""
        with self.open() as data:
            return hashlib.file_digest(data, "sha256").hexdigest()


class _ArchiveReader(io.RawIOBase):
    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._archive.read_at(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._archive.size_bytes}
        self._position = start[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position


@dataclass(frozen=True)
class Tree:
    """The files of one commit, without its history."""

    tar: Archive = field(repr=False, compare=False)
    """A ustar or pax archive of regular files and symbolic links, as `git archive` makes it."""
    digest: str
    """The git tree id, or the SHA-256 of the archive, in hexadecimal."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{40,64}", self.digest):
            raise ValueError("A tree's digest is 40 to 64 hexadecimal digits.")
