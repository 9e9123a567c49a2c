"""What a build container is given."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Mapping
from typing import IO

from sandbox.archive import Archive
from sandbox.layout import UID
from sandbox.tree import Tree


def pack_incoming(files: Mapping[str, bytes], tree: Tree | None) -> Archive:
    """The files that a build needs, and the tree as `tree.tar`: the unprivileged user unpacks it
    in the container, so that no path can escape."""
    with tempfile.TemporaryFile() as file, tarfile.open(fileobj=file, mode="w") as archive:

        def add(name: str, size: int, data: IO[bytes]) -> None:
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.gid = size, 0o600, UID, UID
            archive.addfile(member, data)

        if tree:
            with tree.tar.open() as tar:
                add("tree.tar", tree.tar.size, tar)
        for name, data in files.items():
            add(name, len(data), io.BytesIO(data))
        archive.close()
        return Archive(file)
