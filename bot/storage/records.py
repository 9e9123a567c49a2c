"""Reads records that another version of Capuchin may have saved."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json
from redis.asyncio import Redis

from bot.storage.keys import RECORD_SECONDS, Keys
from bot.types import Failure, Login, Mode, RepoRef, Run, RunId, RunStatus, now, replace
from pipeline.errors import OtherFormat, UnreadableRecord
from pipeline.records import decode_record

M = TypeVar("M", bound=BaseModel)

NEWER_GRACE: Final = timedelta(hours=1)
"""Workers of two versions run side by side during an upgrade: a run of the newer version is theirs
for so long."""

logger = logging.getLogger(__name__)


def read_or_skip(kind: type[M], data: bytes | None, name: str) -> M | None:
    """The record; None without one, and for one that cannot be read, which is logged."""
    if data is None:
        return None
    try:
        return decode_record(kind, data, name)
    except UnreadableRecord as error:
        logger.error("%s", error)  # noqa: TRY400 - the sentence says all
        return None


class _AnyRun(BaseModel):
    """What the record of a run holds in every format."""

    model_config = ConfigDict(extra="ignore")

    id: RunId
    repo: RepoRef
    issue: int
    asked_by: Login
    delivery: str
    mode: Mode = Mode.FIX
    label: str = ""
    status: RunStatus = RunStatus.RUNNING
    comment_id: int | None = None
    created_at: datetime


class RunsOfAnyFormat:
    """Reads the records of active runs such that none can block its issue."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def read(self, run_id: RunId, record: bytes | None) -> Run | None:
        """The run. One whose record cannot be read comes as one that failed, to be reported.

        None without a record, and if too little in it is known. Raises redis-py's errors.

        Raises:
            OtherFormat: a newer version saved it, and a worker of that version may continue it.
        """
        if record is None:
            return None
        try:
            return decode_record(Run, record, f"Run {run_id}")
        except OtherFormat as error:
            if error.is_newer and not await self._is_grace_over(run_id, error):
                raise
            return _salvage(record, error)
        except UnreadableRecord as error:
            return _salvage(record, error)

    async def _is_grace_over(self, run_id: RunId, error: OtherFormat) -> bool:
        key, at = self._keys.first_skipped(run_id), now().timestamp()
        if await self._redis.set(key, f"{at:.0f}", nx=True, ex=RECORD_SECONDS):
            logger.warning("%s A newer worker may continue it.", error)
        first: bytes | None = await self._redis.get(key)
        return first is not None and at - float(first) >= NEWER_GRACE.total_seconds()


def _salvage(record: bytes, error: UnreadableRecord) -> Run | None:
    try:
        found = from_json(record)
        known = _AnyRun.model_validate(cast("dict[str, Any]", found).get("record", found))
    except (ValueError, AttributeError):  # pydantic's error is a ValueError
        logger.error("%s The record is dropped.", error)  # noqa: TRY400 - the sentence says all
        return None
    run = Run(**known.model_dump())
    if run.status.final:
        return run
    logger.warning("%s The run ends now.", error)
    return replace(run, status=RunStatus.RUNNING, failure=Failure.OTHER_FORMAT, detail=str(error))
