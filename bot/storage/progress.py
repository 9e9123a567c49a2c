"""How far a run has come: what it does, and counts that are taken from what it saves."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar

from pydantic import BaseModel, Field, ValidationError
from redis.asyncio import Redis

from bot.storage.client import UNREACHABLE, plain_client
from bot.storage.keys import RECORD_SECONDS, Keys
from bot.types import Frozen, now, replace
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.store import Store

M = TypeVar("M", bound=BaseModel)


class Progress(Frozen):
    """What the status comment and the run's page show while a run is worked on."""

    doing: str = ""
    """One of our own sentences."""
    files: int = 0
    """Read one by one for whether they matter."""
    tests: int = 0
    """Reproduction scripts, under way or written."""
    edits: int = 0
    """Under way or written."""
    dollars: float = 0.0
    """Spent so far at list prices."""
    at: datetime = Field(default_factory=now)


_KEY_PATTERNS: Final = {
    "files": re.compile(r"context/relevance/.+"),
    "tests": re.compile(r"testing/\d+"),
    "edits": re.compile(r"editing/\d+"),
}
"""The pipeline saves a document under such a key for each of them."""


class ProgressReports:
    """The latest progress of each run, for its page; kept as long as the run's record."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def save(self, run_id: str, progress: Progress) -> None:
        """Lost while Redis does not answer; the next report replaces it."""
        key, text = self._keys.progress_report(run_id), progress.model_dump_json()
        with suppress(*UNREACHABLE):
            await plain_client(self._redis).set(key, text, ex=RECORD_SECONDS)

    async def load(self, run_id: str) -> Progress:
        """What was reported last; empty if there was no report. Raises redis-py's errors."""
        found: bytes | None = await self._redis.get(self._keys.progress_report(run_id))
        try:
            return Progress() if found is None else Progress.model_validate_json(found)
        except ValidationError:  # another version's
            return Progress()


class ProgressStore:
    """A store that counts what goes through it, found or saved, and reports every change."""

    def __init__(self, store: Store, on_change: Callable[[Progress], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._seen: dict[str, set[str]] = {name: set() for name in _KEY_PATTERNS}
        self._progress = Progress()

    def report(self, doing: str) -> None:
        """Report what the run does now."""
        self._change(doing=doing)

    async def load(self, key: str, kind: type[M]) -> M | None:
        """See `pipeline.store.Store`."""
        value = await self._store.load(key, kind)
        if value is not None:
            self._count(key, value)
        return value

    async def save(self, key: str, value: BaseModel) -> None:
        """See `pipeline.store.Store`."""
        await self._store.save(key, value)
        self._count(key, value)

    def _count(self, key: str, value: BaseModel) -> None:
        if key == LEDGER_KEY and isinstance(value, Ledger):
            self._change(dollars=value.dollars)
        for name, pattern in _KEY_PATTERNS.items():
            if pattern.fullmatch(key) and key not in self._seen[name]:
                self._seen[name].add(key)
                self._change(**{name: len(self._seen[name])})

    def _change(self, **fields: object) -> None:
        self._progress = replace(self._progress, **fields, at=now())
        self._on_change(self._progress)
