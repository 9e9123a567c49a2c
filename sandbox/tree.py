"""The files of one commit, as the sandbox takes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tree:
    """A checkout as an uncompressed tar: regular files, executable bits, symbolic links."""

    tar: bytes
    digest: str
    """SHA-256 of `tar`, in hexadecimal; equal for equal trees."""
