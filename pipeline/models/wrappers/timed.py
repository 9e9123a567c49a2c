"""How long one run has worked, and until when each of its stages may go on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final, Literal

from pipeline.errors import TimeSpent
from pipeline.models.base import Model, ModelRequest, Reply
from pipeline.models.wrappers.base import ModelWrapper
from pipeline.store import Store
from pipeline.types import Frozen

TimedStage = Literal["samples", "choice", "reproduction"]
_SHARES: Final[dict[TimedStage, float]] = {"samples": 0.6, "choice": 0.85, "reproduction": 1.0}
"""The share of a run's time by which a stage is over: the next one always has time of its own."""
CLOCK_KEY = "clock"
SAVE_SECONDS = 20.0
"""Time worked between two saves."""


class WorkTime(Frozen):
    """The saved state of a clock."""

    seconds: float = 0.0
    """Wall time worked, without the time between two starts of the run."""


class RunClock:
    """The time of one run over all its starts. Use `open` to continue a run's time."""

    def __init__(
        self,
        minutes: float = 0,
        *,
        worked: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`minutes` of wall time in all, 0: no limit; `worked` seconds are gone already."""
        self.minutes = minutes
        self._now = now
        self._began = now() - worked
        self._saved = 0.0

    @classmethod
    async def open(cls, store: Store, minutes: float) -> RunClock:
        """The clock of the run in `store`."""
        saved = await store.load(CLOCK_KEY, WorkTime) or WorkTime()
        return cls(minutes, worked=saved.seconds)

    async def save(self, store: Store) -> None:
        """Save the time worked, now and then: another start of the run continues from there."""
        worked = self._now() - self._began
        if self.minutes and worked - self._saved >= SAVE_SECONDS:
            self._saved = worked
            await store.save(CLOCK_KEY, WorkTime(seconds=round(worked, 1)))

    def seconds_left(self, stage: TimedStage) -> float:
        """Seconds until `stage` must be over; infinite without a limit, negative if it is late."""
        if not self.minutes:
            return math.inf
        return self.minutes * 60 * _SHARES[stage] - (self._now() - self._began)

    def limit(self, model: Model, stage: TimedStage) -> Model:
        """`model`, but it takes no question once `stage` must be over."""
        return _TimedModel(model, self, stage) if self.minutes else model


UNLIMITED: Final = RunClock()


class _TimedModel(ModelWrapper):
    """Raises TimeSpent instead of asking when the time of its stage is over."""

    def __init__(self, model: Model, clock: RunClock, stage: TimedStage) -> None:
        super().__init__(model)
        self._clock = clock
        self._stage: TimedStage = stage

    async def complete(self, request: ModelRequest) -> Reply:
        if self._clock.seconds_left(self._stage) <= 0:
            raise TimeSpent(self._clock.minutes, self._stage)
        return await self.model.complete(request)
