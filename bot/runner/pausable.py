"""Models that a draining worker can stop between two calls."""

from __future__ import annotations

from bot.storage.draining import InFlightWork
from pipeline.models.base import Model, ModelRequest, Reply
from pipeline.models.likelihood import Reward
from pipeline.models.wrappers.base import ModelWrapper
from pipeline.types import Issue


class PausableModel(ModelWrapper):
    """A model whose calls a stopping worker waits for. The innermost wrapper of a client."""

    def __init__(self, model: Model, in_flight: InFlightWork) -> None:
        super().__init__(model)
        self._in_flight = in_flight

    async def complete(self, request: ModelRequest) -> Reply:
        async with self._in_flight.billable():
            return await self.model.complete(request)


class PausableReward:
    """A reward model whose calls a stopping worker waits for."""

    def __init__(self, reward: Reward, in_flight: InFlightWork) -> None:
        self._reward = reward
        self._in_flight = in_flight

    async def score(self, issue: Issue, diff: str) -> float:
        """See `pipeline.models.likelihood.Reward`."""
        async with self._in_flight.billable():
            return await self._reward.score(issue, diff)
