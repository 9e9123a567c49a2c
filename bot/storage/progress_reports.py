"""How far a run has come: its stages, what it does, and counts taken from what it saves."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, Literal, TypeVar, get_args

from pydantic import BaseModel, Field
from redis.asyncio import Redis

from bot.storage.client import UNREACHABLE, plain_client
from bot.storage.keys import RECORD_SECONDS, Keys
from bot.storage.records import read_or_skip
from bot.types import Frozen, RunId, now, replace
from pipeline.environment.record import EnvironmentRecord
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.records import encode_record
from pipeline.regression.results import TestRun
from pipeline.state import State
from pipeline.store import SHARED, Store

M = TypeVar("M", bound=BaseModel)


Stage = Literal["environment", "context", "edits", "choice", "reproduction"]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)
"""In their order."""
MIN_DURATIONS: Final = 3
"""Runs that must have ended before anything is said of how long they take."""


class Progress(Frozen):
    """What the status comment and the run's page show while a run is worked on."""

    doing: str = ""
    """A sentence. May quote the repository: untrusted."""
    environment: str = ""
    """How well the environment of the run works. May quote the repository: untrusted."""
    stages: dict[Stage, datetime] = Field(default_factory=dict[Stage, datetime])
    """When each stage began; the latest is under way."""
    expected: tuple[float, float] | None = None
    """How many seconds the middle half of the latest runs took; None: too few have ended."""
    files: int = 0
    """Read one by one for whether they matter."""
    tests: int = 0
    """Reproduction scripts that are written."""
    edits: int = 0
    """That are written."""
    edits_begun: int = 0
    """Written, or under way."""
    suite_tests: int = 0
    """The repository's own tests that ran on the unedited code."""
    suite_run: int = 0
    """Tests of the repository that ran after that, with an edit or again; one counts each time."""
    suite_runs: int = 0
    """In how many runs."""
    dollars: float = 0.0
    """Spent so far at list prices."""
    at: datetime = Field(default_factory=now)


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


def range_of_durations(durations: Sequence[float]) -> tuple[float, float] | None:
    """The quartiles of what runs took; None where too few have ended."""
    if len(durations) < MIN_DURATIONS:
        return None
    low, _, high = statistics.quantiles(durations, n=4, method="inclusive")
    return low, high


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
