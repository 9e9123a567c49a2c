"""Reads what the installer recorded in a build container."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Final, cast

import docker
from docker.errors import NotFound

from sandbox.environment.installation import MAX_BYTES, Installation, parse_installation
from sandbox.layout import ENVIRONMENT

RECORD: Final = f"{ENVIRONMENT}/capuchin-installation.json"
MAX_RECORD_BYTES: Final = MAX_BYTES + 64 * 1024


def read_record(client: docker.APIClient, container: str) -> Installation | None:
    """What the installer recorded in a container; the repository's code may have written there."""
    try:
        chunks, _ = client.get_archive(container, RECORD)
    except NotFound:
        return None
    data = bytearray()
    for chunk in cast(Iterator[bytes], chunks):
        data += chunk
        if len(data) > MAX_RECORD_BYTES:
            return None
    try:
        with tarfile.open(fileobj=io.BytesIO(bytes(data))) as archive:
            member = archive.next()
            source = archive.extractfile(member) if member and member.isreg() else None
            return parse_installation(source.read()) if source else None
    except (tarfile.TarError, OSError):
        return None
