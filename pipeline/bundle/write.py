"""Writes `run.tar.zst`: every request, reply, execution and count of a run in one archive."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import zstandard

FORMAT = 2
MANIFEST = "manifest.json"


def write_bundle(
    path: Path, store: Path, *, facts: Mapping[str, object], extra: Mapping[str, bytes]
) -> None:
    """Pack the documents of a `DirStore` at `store`, whole or not at all.

    `manifest.json` comes first: the format, our version, `facts`, and the SHA-256 of every other
    file. Documents lie under `store/`, `extra` beside it. The same content makes the same bytes.
    """
    pack_bundle(path, _read_documents(store), facts=facts, extra=extra)


def pack_bundle(
    path: Path,
    documents: Mapping[str, bytes],
    *,
    facts: Mapping[str, object],
    extra: Mapping[str, bytes],
) -> None:
    """As `write_bundle`, with the documents in memory, by their names in the store and `.json`."""
    files = {**extra, **{f"store/{name}": data for name, data in documents.items()}}
    manifest = {
        "format": FORMAT,
        "capuchin": version("capuchin-bot"),
        **facts,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }
    text = json.dumps(manifest, indent=1, sort_keys=True).encode()
    scratch = path.with_name(f".{path.name}.tmp")
    with (
        scratch.open("wb") as raw,
        zstandard.ZstdCompressor(level=10).stream_writer(raw) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, data in [(MANIFEST, text), *sorted(files.items())]:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    scratch.replace(path)


def _read_documents(store: Path) -> dict[str, bytes]:
    """All complete documents; the name of a half-written one begins with a dot."""
    return {
        file.relative_to(store).as_posix(): file.read_bytes()
        for file in sorted(store.rglob("*.json"))
        if not file.name.startswith(".")
    }
