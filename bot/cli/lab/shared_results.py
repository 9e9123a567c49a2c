"""Results of shards in an object store that all machines see, in place of a folder."""

from __future__ import annotations

import asyncio
import io
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel

from bot.archive import ArchiveUnavailable, ObjectStore
from pipeline.lab.shards import KINDS, join_results, open_results

_SUFFIX: Final = ".zip"
T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True)
class SharedResults:
    """What is done in `out`, and in the store where there is one."""

    out: Path
    store: ObjectStore | None = None

    async def load(self, name: str, key: str, kind: type[T]) -> T | None:
        """What is saved of an instance, here or by another machine, whose run comes with it.

        Raises `ArchiveUnavailable`, OSError.
        """
        results = open_results(self.out, name)
        found = await results.load(key, kind)
        if found is None and self.store and (data := await self.store.get(f"{name}{_SUFFIX}")):
            await asyncio.to_thread(_unpack, data, self.out)
            found = await results.load(key, kind)
        return found

    async def save(self, name: str, key: str, value: BaseModel) -> None:
        """Save what is done for an instance. Raises `ArchiveUnavailable`, OSError."""
        if self.store:
            # First, since what is saved here is not done again: killed between both, it would be
            # missing there.
            with tempfile.TemporaryDirectory(prefix="capuchin-shard-") as scratch:
                await open_results(Path(scratch), name).save(key, value)
                data = await asyncio.to_thread(_pack, self.out, Path(scratch), name)
            await self.store.put(f"{name}{_SUFFIX}", data)
        await open_results(self.out, name).save(key, value)


async def join_shards(out: Path, shards: Sequence[str]) -> int:
    """Copy into `out` what is done in the folders and object stores `shards`; return how much.

    Raises:
        BadData, SettingsError: one cannot be used.
        ArchiveUnavailable, OSError: call again to go on.
    """
    joined = 0
    for shard in shards:
        if not shard.startswith("s3://"):
            joined += await asyncio.to_thread(join_results, out, [Path(shard)])
            continue
        store = ObjectStore(shard)
        for found in await store.list_names():
            data = await store.get(found) if found.endswith(_SUFFIX) else None
            joined += await asyncio.to_thread(_unpack, data, out) if data else 0
    return joined


def _pack(out: Path, results: Path, name: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder, kind in zip((out, results), KINDS, strict=True):
            for file in sorted((folder / kind / name).rglob("*")):
                archive.write(file, file.relative_to(folder))
    return packed.getvalue()


def _unpack(data: bytes, out: Path) -> int:
    with tempfile.TemporaryDirectory(prefix="capuchin-shard-") as scratch:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                archive.extractall(scratch)  # outside names are put inside; there are no links
        except (zipfile.BadZipFile, zlib.error) as error:
            raise ArchiveUnavailable(f"An object is not the result of a shard: {error}") from None
        return join_results(out, [Path(scratch)])
