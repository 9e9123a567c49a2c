"""Builds the reward models of the settings; an invalid one is reported when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bot.runner.pausable import PausableLikelihood
from bot.settings import Settings
from bot.storage.draining import InFlightWork
from pipeline.models.base import Model, ModelMisconfigured
from pipeline.models.factory import build_likelihood
from pipeline.models.likelihood import Likelihood, Reward
from pipeline.models.spec import ModelSpec, parse_spec
from pipeline.models.wrappers.metered import Meter
from pipeline.search.reward import (
    JudgeInWords,
    ProcessReward,
    UnusableProcessReward,
    VerdictOrWords,
    VerdictProcessReward,
)
from pipeline.selection.reward import ImplicitReward, UnusableReward, VerdictReward


@dataclass(frozen=True)
class RewardBuilder:
    """Its models are paid from `meter`, and closed with `stack`."""

    settings: Settings
    stack: AsyncExitStack
    meter: Meter
    in_flight: InFlightWork

    def build_outcome_reward(self) -> Reward | None:
        """What scores edits; None where none is set."""
        settings = self.settings
        if not settings.orm_model:
            return None
        try:
            policy = self._build_likelihood(settings.orm_model)
            if not settings.orm_reference:
                return VerdictReward(policy, self.meter)
            reference = self._build_likelihood(settings.orm_reference)
        except ModelMisconfigured as error:
            return UnusableReward(error)
        return ImplicitReward(policy, reference, self.meter)

    def build_process_reward(self, build: Callable[[ModelSpec], Model]) -> ProcessReward | None:
        """What scores the answers of a search; None where none is set.

        `build` makes the model that judges in words, where its service has no log-probabilities.
        """
        text = self.settings.prm_model
        if not text:
            return None
        try:
            spec = _parse(text)
            words = JudgeInWords(build(spec))
            if spec.provider != "openai":
                return words
            return VerdictOrWords(
                VerdictProcessReward(self._build_likelihood(text), self.meter), words
            )
        except ModelMisconfigured as error:
            return UnusableProcessReward(error)

    def _build_likelihood(self, text: str) -> Likelihood:
        key = self.settings.model_api_key.get_secret_value()
        client = build_likelihood(_parse(text), api_key=key)
        self.stack.push_async_callback(client.aclose)
        return PausableLikelihood(client, self.in_flight)


def find_judges(settings: Settings) -> tuple[ModelSpec, ...]:
    """The process reward model, which may judge in words; none where its setting is no model."""
    try:
        return (parse_spec(settings.prm_model),) if settings.prm_model else ()
    except ValueError:
        return ()


def _parse(text: str) -> ModelSpec:
    try:
        return parse_spec(text)
    except ValueError as error:
        raise ModelMisconfigured(str(error)) from None
