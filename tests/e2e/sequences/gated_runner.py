"""A pipeline whose answer is decided, and given when the sequence lets it."""

from __future__ import annotations

import asyncio

from bot.runner.types import Job, OnProgress, Outcome, PlanOutcome, SolveOutcome
from bot.settings import Settings
from bot.storage.draining import InFlightWork
from pipeline.store import Store
from pipeline.types import NoFix, Selection
from tests.e2e.held_harness import PLAN
from tests.e2e.single_run_harness import Decided
from tests.support.data.publishing import ACCOUNTS


class Gated(Decided):
    """Answers once let, each run by itself."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.gates: dict[str, asyncio.Event] = {}
        self.came = asyncio.Event()

    async def solve(
        self, job: Job, store: Store, *, in_flight: InFlightWork, on_progress: OnProgress
    ) -> SolveOutcome:
        await self._passed(job)
        assert isinstance(self.answer, Selection | NoFix)
        return Outcome(self.answer, ACCOUNTS)

    async def plan(
        self, job: Job, store: Store, *, in_flight: InFlightWork, on_progress: OnProgress
    ) -> PlanOutcome:
        await self._passed(job)
        return Outcome(PLAN, ACCOUNTS)

    async def _passed(self, job: Job) -> None:
        gate = self.gates[job.run_id] = asyncio.Event()
        self.came.set()
        try:
            await gate.wait()
        finally:
            del self.gates[job.run_id]
