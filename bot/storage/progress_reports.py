"""Saves the progress of each run, and counts it from what the pipeline saves."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from pydantic import BaseModel
from redis.asyncio import Redis

from bot.data.progress import STAGES, Progress, Stage
from bot.data.run import RunId, now
from bot.storage.client import UNREACHABLE, plain_client, read_or_skip
from bot.storage.keys import RECORD_SECONDS, Keys
from pipeline.environment.record import EnvironmentRecord
from pipeline.models.metering import LEDGER_KEY, Ledger
from pipeline.regression.results import TestRun
from pipeline.state import State
from pipeline.store import SHARED, Store, encode_record
from sandbox.frozen import replace

M = TypeVar("M", bound=BaseModel)


_TESTING: Final = re.compile(r"testing/\d+")
_CONTEXT: Final = "context/files"
"""`pipeline.context.finder.CONTEXT_KEY`, whose module the web process need not load."""
_EDITING: Final = re.compile(r"editing/\d+")
_FILES_READ: Final = re.compile(r"The scout has read ([\d,]+) of [\d,]+ files\.")
_STAGE_KEYS: Final[tuple[tuple[Stage, re.Pattern[str]], ...]] = (
    ("context", re.compile(r"(context$|context/|understanding/|localisation/|search/).*")),
    ("edits", re.compile(r"(approaches$|editing/).*")),
    ("choice", re.compile(r"(question|reports|selecting|choosing)/.*")),
    ("reproduction", re.compile(r"(verdict|reproduction)/.*")),
)
"""What the pipeline saves under such a key belongs to that stage."""


class ProgressReports:
    """The latest progress of each run, for its page; kept as long as the run's record."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def save(self, run_id: RunId, progress: Progress) -> None:
        """Lost while Redis does not answer; the next report replaces it."""
        key, text = self._keys.progress_report(run_id), encode_record(progress)
        with suppress(*UNREACHABLE):
            await plain_client(self._redis).set(key, text, ex=RECORD_SECONDS)

    async def load(self, run_id: RunId) -> Progress:
        """What was reported last; empty if there was no report. Raises redis-py's errors."""
        found: bytes | None = await self._redis.get(self._keys.progress_report(run_id))
        return read_or_skip(Progress, found, f"The progress of run {run_id}") or Progress()


class ProgressStore:
    """A store that counts what goes through it, found or saved, and reports every change."""

    def __init__(
        self,
        store: Store,
        on_change: Callable[[Progress], None],
        before: Progress | None = None,
    ) -> None:
        """`before` is what an earlier worker reported of the same run."""
        self._store = store
        self._on_change = on_change
        self._written: dict[str, set[str]] = {"tests": set(), "edits": set(), "edits_begun": set()}
        self._suite_runs: dict[str, int] = {}
        self._has_context = False
        progress = before or Progress()
        self._progress = replace(progress, stages=progress.stages or {"environment": now()})

    def report(self, doing: str) -> None:
        """Report what the run does now."""
        if read := _FILES_READ.fullmatch(doing):
            self._change(doing=doing, files=int(read[1].replace(",", "")))
        else:
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
        if isinstance(value, EnvironmentRecord) and value.best:
            self._change(environment=value.best.line())
        for stage, pattern in _STAGE_KEYS:
            if pattern.fullmatch(key):
                self._begin(stage)
        self._has_context = self._has_context or key == _CONTEXT
        if _TESTING.fullmatch(key):  # the first scripts see whether there is anything to look for
            self._begin("edits" if self._has_context else "context")
        if isinstance(value, State):
            self._count_written(key, value)
        elif isinstance(value, TestRun):
            self._count_suite(key, value)

    def _begin(self, stage: Stage) -> None:
        """Note when a stage began; one that a later stage has left is over."""
        began = self._progress.stages
        if all(STAGES.index(one) < STAGES.index(stage) for one in began):
            self._change(stages={**began, stage: now()})

    def _count_written(self, key: str, state: State) -> None:
        if _TESTING.fullmatch(key) and state.phase.final:
            self._add("tests", key)
        if _EDITING.fullmatch(key):
            self._add("edits_begun", key)
            if state.phase.final:
                self._add("edits", key)

    def _add(self, name: str, key: str) -> None:
        if key not in self._written[name]:
            self._written[name].add(key)
            self._change(**{name: len(self._written[name])})

    def _count_suite(self, key: str, run: TestRun) -> None:
        """Runs near an edit, while it is written, are not the suite."""
        if "choice" not in self._progress.stages:
            return
        tests = len(run.suite.passed) + len(run.suite.failed)
        if SHARED not in key:  # they may lie in the part of an environment
            self._suite_runs[key] = tests
            runs = self._suite_runs.values()
            self._change(suite_runs=len(runs), suite_run=sum(runs))
        else:
            self._change(suite_tests=max(tests, self._progress.suite_tests))

    def _change(self, **fields: object) -> None:
        self._progress = replace(self._progress, **fields, at=now())
        self._on_change(self._progress)
