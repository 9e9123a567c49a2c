"""Reward models: how probable a model finds an answer, and how good an edit is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pipeline.models.base import ModelError, ModelProfile
from pipeline.types import Issue, Usage


class ScoreUnavailable(ModelError):
    """The server answered, but no score can be computed from its reply."""


class Likelihood(Protocol):
    @property
    def profile(self) -> ModelProfile: ...

    async def first_token(
        self, system: str, question: str, *, call: str
    ) -> tuple[Mapping[str, float], Usage]:
        """The log-probabilities of the likeliest first tokens of an answer, by stripped text.

        Tokens that differ only in surrounding space are merged. `call` names the request in logs
        and accounts.

        Raises:
            ModelError: the call failed. ScoreUnavailable: the reply has no log-probabilities.
        """
        ...

    async def answer(self, question: str, text: str, *, call: str) -> tuple[float, Usage]:
        """The log-probability of `text` as the whole answer to `question`.

        Raises:
            ModelError: the call failed. ScoreUnavailable: the reply has no log-probabilities.
        """
        ...


class Reward(Protocol):
    async def score(self, issue: Issue, diff: str) -> float:
        """How good an edit is for an issue; scores compare only within one issue.

        Raises:
            ModelError: there is no score.
            BudgetSpent: the ceiling is reached; nothing was sent.
        """
        ...
