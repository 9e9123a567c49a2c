"""A checkout as one value: an archive of its files and a digest of exactly those files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sandbox.archive import Archive


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
