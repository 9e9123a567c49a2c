"""Models that a draining worker may stop between two calls."""

from __future__ import annotations

from bot.storage.draining import Steps
from pipeline.models.base import Model, Reply
from pipeline.models.likelihood import Reward
from pipeline.models.wrappers.base import Question, Wrapper
from pipeline.types import Issue


class PausableModel(Wrapper):
    """A model whose calls a stopping worker waits for. Put it nearest to the client."""

    def __init__(self, model: Model, steps: Steps) -> None:
        super().__init__(model)
        self._steps = steps

    async def answer(self, question: Question) -> Reply:
        async with self._steps.paid():
            return await question.put_to(self.model)


class PausableReward:
    """A reward model whose calls a stopping worker waits for."""

    def __init__(self, reward: Reward, steps: Steps) -> None:
        self._reward = reward
        self._steps = steps

    async def score(self, issue: Issue, diff: str) -> float:
        """As the reward model's own; see `pipeline.selection.reward.Reward`."""
        async with self._steps.paid():
            return await self._reward.score(issue, diff)
