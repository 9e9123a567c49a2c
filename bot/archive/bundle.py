"""`run.tar.zst` of a finished run: the bundle that `capuchin replay` reads."""

from __future__ import annotations

import asyncio
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bot.errors import BotError
from bot.storage.checkpoints import RedisStore
from bot.storage.storage import Storage
from bot.types import Run
from pipeline.bundle.read import LARGEST_DOCUMENT
from pipeline.bundle.write import pack_bundle

MAX_BYTES: Final = 128 * 1024 * 1024
"""Of all documents, unpacked: they are in memory for as long as they are packed."""
LOAD_SECONDS: Final = 30.0
NAME: Final = "run.tar.zst"


class BundleTooLarge(BotError):
    """The documents of the run are too large to be packed by the server."""


async def build_bundle(storage: Storage, run: Run) -> bytes | None:
    """The bundle; None if nothing of the run is kept any more.

    Raises:
        BundleTooLarge: see `MAX_BYTES`.
        TimeoutError: Redis does not answer.
    """
    async with asyncio.timeout(LOAD_SECONDS):
        documents = await _load_documents(storage.checkpoints(run.id))
    if not documents:
        return None
    facts = {
        "run": run.id,
        "repository": run.repo.full_name,
        "issue": run.issue,
        "base_commit": run.base_commit,
        "outcome": run.status.value,
    }
    return await asyncio.to_thread(_pack, documents, facts)


async def _load_documents(store: RedisStore) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = MAX_BYTES
    for key in await store.list_documents():
        packed = await store.load_packed(key)
        data = None if packed is None else await asyncio.to_thread(_unpack, packed, left)
        if data is not None:
            found[f"{key}.json"] = data
            left -= len(data)
    return found


def _unpack(packed: bytes, left: int) -> bytes | None:
    """One document; None for a damaged one. Raises `BundleTooLarge`."""
    if left <= 0:  # zlib takes 0 for no limit
        raise BundleTooLarge
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, min(left, LARGEST_DOCUMENT))
    except zlib.error:
        return None
    if unpacking.unconsumed_tail:
        raise BundleTooLarge
    return data if unpacking.eof else None


def _pack(documents: Mapping[str, bytes], facts: Mapping[str, object]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="capuchin-bundle-") as folder:
        path = Path(folder) / NAME
        pack_bundle(path, documents, facts=facts, extra={})
        return path.read_bytes()
