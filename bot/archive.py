"""Moves the bundles of ended runs to an object store, and finds them there.

Address, region and keys of the store come from the standard variables (`AWS_ENDPOINT_URL`,
`AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`) or from the machine's role. It needs no
conditional writes, which some stores lack.
Source: docs.rs/object_store, `AmazonS3Builder`.
"""

import asyncio
import logging
import tempfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from typing import Final

import zstandard

from bot.data.run import Run, RunId, now
from bot.errors import BotError
from bot.safe_text import printable
from bot.settings import SettingsError
from bot.storage.checkpoints import RedisStore
from bot.storage.storage import Storage
from bot.telemetry.measurements import ARCHIVE_FAILURES
from pipeline.bundle import LARGEST_DOCUMENT, pack_bundle
from pipeline.run_errors import UnreadableRecord
from prompts.text import pluralize

RETRIES: Final = 3


class ArchiveUnavailable(BotError):
    """The object store does not answer, or refuses us; `str(error)` says why."""


class ObjectStore:
    def __init__(self, url: str) -> None:
        """`url` is `s3://BUCKET/PREFIX`.

        Raises:
            SettingsError: the extra `s3` is not installed, or `url` cannot be used.
        """
        try:
            import obstore
            from obstore.exceptions import BaseError
            from obstore.store import S3Store
        except ImportError:
            raise SettingsError(
                f"{url} needs another package: pip install 'capuchin-bot[s3]'."
            ) from None
        self._obstore = obstore
        self.url = url.rstrip("/")
        try:
            self._store: S3Store = S3Store.from_url(
                self.url,
                # Without TLS only if the operator's address says so.
                client_options={"allow_http": True, "timeout": timedelta(seconds=60)},
                retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=30)},
            )
        except (BaseError, ValueError) as error:
            raise SettingsError(f"{url} cannot be used: {_cause(error)}") from None

    async def put(self, name: str, data: bytes) -> None:
        """Write or replace an object. Raises `ArchiveUnavailable`."""
        with self._translate_errors():
            await self._obstore.put_async(self._store, name, data)

    async def get(self, name: str) -> bytes | None:
        """Read an object; None if there is none.

        Raises:
            ArchiveUnavailable: the store fails, or the object has more than 256 MiB.
        """
        with self._translate_errors():
            try:
                found = await self._obstore.get_async(self._store, name)
            except FileNotFoundError:
                return None
            if found.meta["size"] > 1 << 28:  # twice what `build_bundle` packs
                raise ArchiveUnavailable(f"{self.url}/{name} is too large to read.")
            return bytes(await found.bytes_async())

    async def delete(self, name: str) -> None:
        """Delete an object, if it is there. Raises `ArchiveUnavailable`."""
        with self._translate_errors():
            await self._obstore.delete_async(self._store, name)

    async def check(self) -> None:
        name, data = f"check-{token_hex(8)}", token_hex(8).encode()
        await self.put(name, data)
        found = await self.get(name)
        await self.delete(name)
        if found != data:
            raise ArchiveUnavailable(f"{self.url} does not return what was written to it.")

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except FileNotFoundError as error:
            raise ArchiveUnavailable(f"{self.url}: the bucket does not exist.") from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise ArchiveUnavailable(f"{self.url} refuses the keys: {_cause(error)}") from error
        except (BaseError, OSError, ValueError) as error:
            raise ArchiveUnavailable(f"{self.url} does not answer: {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """The first line, which names no key, but quotes what the store answered."""
    return printable(str(error).strip().partition("\n")[0][:300])


NAME: Final = "run.tar.zst"


class BundleTooLarge(BotError):
    """The unpacked documents of a run have more than 128 MiB, too much for the server's memory."""


async def build_bundle(storage: Storage, run: Run) -> bytes | None:
    """The bundle; None if its documents have expired.

    Raises:
        BundleTooLarge: the server cannot pack them.
        TimeoutError: Redis does not answer.
    """
    async with asyncio.timeout(30):
        documents = await _load_documents(storage.checkpoints(run.id))
    if not documents:
        return None
    facts = {
        "run": run.id,
        "repository": run.repo.full_name,
        "issue": run.issue,
        "base_commit": run.base_commit,
        "outcome": run.status.words,
    }

    def pack() -> bytes:
        with tempfile.TemporaryDirectory(prefix="capuchin-bundle-") as folder:
            path = Path(folder) / NAME
            pack_bundle(path, documents, facts=facts, extra={})
            return path.read_bytes()

    return await asyncio.to_thread(pack)


async def _load_documents(store: RedisStore) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = 128 * 1024 * 1024
    for key in await store.list_documents():
        packed = await store.load_packed(key)
        data = None if packed is None else await asyncio.to_thread(_unpack, packed, left)
        if data is not None:
            found[f"{key}.json"] = data
            left -= len(data)
    return found


def _unpack(packed: bytes, left: int) -> bytes | None:
    """One document; None for a damaged one. Raises `BundleTooLarge`."""
    if left <= 0:  # to zlib, 0 means no limit
        raise BundleTooLarge
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, min(left, LARGEST_DOCUMENT))
    except zlib.error:
        return None
    if unpacking.unconsumed_tail:
        raise BundleTooLarge
    return data if unpacking.eof else None


logger = logging.getLogger(__name__)


def object_name(run_id: RunId) -> str:
    return f"runs/{run_id}.tar.zst"


async def archive_runs(storage: Storage, archive: ObjectStore, *, after: float) -> None:
    """Archive the runs that ended more than `after` seconds ago.

    The bundle is written before its checkpoints are deleted from Redis. Archiving a run twice is
    harmless.

    Raises:
        ArchiveUnavailable: the store fails. The next call continues with the rest.
        TimeoutError: Redis does not answer; also redis-py's own errors.
    """
    count = 0
    ended_by = (now() - timedelta(seconds=after)).timestamp()
    while found := await storage.archived_runs.list_due(ended_by, 100):
        for run_id, ended in found:
            archived = await _archive_run(storage, archive, run_id)
            await storage.archived_runs.mark_done(run_id, ended, archived=archived)
            count += archived
    if count:
        logger.info("Archived %s", pluralize(count, "ended run"))


async def _archive_run(storage: Storage, archive: ObjectStore, run_id: RunId) -> bool:
    data: bytes | None = None
    try:
        run = await storage.runs.get(run_id)
        data = await build_bundle(storage, run) if run else None
    except UnreadableRecord:
        pass  # the sweep logs and ends it
    except BundleTooLarge:
        logger.warning("Run %s: its bundle is too large to be archived", run_id)
    if data is None:
        return False
    try:
        await archive.put(object_name(run_id), data)
    except ArchiveUnavailable:
        ARCHIVE_FAILURES.inc()
        raise
    await storage.checkpoints(run_id).drop_archived()
    return True


async def load_bundle(storage: Storage, archive: ObjectStore | None, run: Run) -> bytes | None:
    """The bundle of an ended run, from the archive or Redis; None if its documents have expired.

    Raises:
        ArchiveUnavailable: the bundle is in the archive, which fails.
        BundleTooLarge: the server cannot pack it.
        TimeoutError: Redis does not answer; also redis-py's own errors.
    """
    if archive and await storage.archived_runs.is_archived(run.id):
        data = await archive.get(object_name(run.id))
        if data is not None and not data.startswith(zstandard.FRAME_HEADER):
            raise ArchiveUnavailable(f"{archive.url} answers with something else than the bundle.")
        return data
    return await build_bundle(storage, run)
