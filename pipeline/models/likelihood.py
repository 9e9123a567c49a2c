"""What a reward model is: how probable it finds an answer, and how good an edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pipeline.models.base import ModelError, ModelProfile
from pipeline.types import Issue, Usage


class ScoreUnavailable(ModelError):
    """The server answered, but with nothing that a score can be made of."""


class Likelihood(Protocol):
    @property
    def profile(self) -> ModelProfile: ...

    async def first_token(
        self, system: str, question: str, *, call: str
    ) -> tuple[Mapping[str, float], Usage]:
        """The log-probabilities of the likeliest first tokens of an answer, by stripped text.

        Tokens that differ only in the space around them are one. `call` as in `Model.complete`.

        Raises:
            ModelError: as `Model.complete`; NoScore where there are no log-probabilities.
        """
        ...

    async def answer(self, question: str, text: str, *, call: str) -> tuple[float, Usage]:
        """The log-probability of `text` as the whole answer to `question`.

        Raises:
            ModelError: as `Model.complete`; NoScore where there are no log-probabilities.
        """
        ...


class Reward(Protocol):
    async def score(self, issue: Issue, diff: str) -> float:
        """How good an edit is for an issue; only differences within one issue mean anything.

        Raises:
            ModelError: there is no score. BudgetSpent: before anything is sent.
        """
        ...
