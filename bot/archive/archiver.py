"""Moves the bundles of ended runs from Redis to an object store, and finds them there."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Final

from bot.archive.bundle import BundleTooLarge, build_bundle
from bot.archive.object_store import ArchiveUnavailable, ObjectStore
from bot.storage.storage import Storage
from bot.telemetry.histograms import ARCHIVE_FAILURES, RECORDER
from bot.types import Run, RunId, now
from pipeline.codebase.text import pluralize
from pipeline.errors import UnreadableRecord

BATCH: Final = 100
"""Runs that are looked at between two questions whether there are more."""

logger = logging.getLogger(__name__)


def object_name(run_id: RunId) -> str:
    """The name of a run's bundle below the archive's prefix."""
    return f"runs/{run_id}.tar.zst"


async def archive_runs(storage: Storage, archive: ObjectStore, *, after: float) -> None:
    """Archive the runs that ended more than `after` seconds ago.

    The bundle is written before Redis gives up the checkpoints in it. Done twice, it does no harm.

    Raises:
        ArchiveUnavailable: the store fails. What is left keeps its place, and comes up again.
        TimeoutError: Redis does not answer; also redis-py's own errors.
    """
    count = 0
    ended_by = (now() - timedelta(seconds=after)).timestamp()
    while found := await storage.archived_runs.list_due(ended_by, BATCH):
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
        RECORDER.count(ARCHIVE_FAILURES)
        raise
    await storage.checkpoints(run_id).drop_archived()
    return True


async def load_bundle(storage: Storage, archive: ObjectStore | None, run: Run) -> bytes | None:
    """The bundle of an ended run, from where it is; None if nothing of the run is kept any more.

    Raises:
        ArchiveUnavailable: the store fails, and the bundle is there.
        BundleTooLarge: see `bot.archive.bundle`.
        TimeoutError: Redis does not answer; also redis-py's own errors.
    """
    if archive and await storage.archived_runs.is_archived(run.id):
        return await archive.get(object_name(run.id))
    return await build_bundle(storage, run)
