"""Models that pause while a worker drains or know the run's environment; reward models."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from bot.settings import Settings
from bot.storage.workers import InFlightWork
from pipeline.data.types import NoFix, Selection, Usage
from pipeline.environment.facts import EnvironmentFacts, InformedModel
from pipeline.environment.record import EnvironmentRecord
from pipeline.localisation.process_reward import (
    JudgeInWords,
    ProcessReward,
    UnusableProcessReward,
    VerdictOrWords,
    VerdictProcessReward,
)
from pipeline.models.base import (
    Likelihood,
    Model,
    ModelMisconfigured,
    ModelProfile,
    ModelRequest,
    Reply,
    Reward,
)
from pipeline.models.factory import build_likelihood
from pipeline.models.metering import Meter, ModelWrapper
from pipeline.models.spec import ModelSpec, parse_spec
from pipeline.selection.ties import ImplicitReward, UnusableReward, VerdictReward
from pipeline.workflows.outcome import Models
from sandbox.frozen import replace


class PausableModel(ModelWrapper):
    """A model whose calls a stopping worker waits for. The innermost wrapper of a client."""

    def __init__(self, model: Model, in_flight: InFlightWork) -> None:
        super().__init__(model)
        self._in_flight = in_flight

    async def complete(self, request: ModelRequest) -> Reply:
        async with self._in_flight.billable():
            return await self.model.complete(request)


class PausableLikelihood:
    """A `Likelihood` whose calls a stopping worker waits for."""

    def __init__(self, model: Likelihood, in_flight: InFlightWork) -> None:
        self._model = model
        self._in_flight = in_flight

    @property
    def profile(self) -> ModelProfile:
        return self._model.profile

    async def first_token(
        self, system: str, question: str, *, call: str
    ) -> tuple[Mapping[str, float], Usage]:
        """See `Likelihood.first_token`."""
        async with self._in_flight.billable():
            return await self._model.first_token(system, question, call=call)

    async def answer(self, question: str, text: str, *, call: str) -> tuple[float, Usage]:
        """See `Likelihood.answer`."""
        async with self._in_flight.billable():
            return await self._model.answer(question, text, call=call)


SelectionModels = tuple[Model | None, Reward | None]
"""The solver and the reward model, as far as they are set."""
T = TypeVar("T")
M = TypeVar("M", bound=Models | SelectionModels)


def find_solver(models: Models | SelectionModels) -> Model | None:
    """The solver, if there is one."""
    return models.solver if isinstance(models, Models) else models[0]


def inform_models(models: M, facts: EnvironmentFacts | None) -> M:
    """`models` with a solver that knows `facts`; the scout runs nothing and needs none."""
    solver = find_solver(models)
    if solver is None or facts is None:
        return models
    informed = InformedModel(solver, facts)
    changed: Any = (
        dataclasses.replace(
            models,
            solver=informed,
            solvers={name: InformedModel(one, facts) for name, one in models.solvers.items()},
        )
        if isinstance(models, Models)
        else (informed, models[1])
    )
    return cast(M, changed)


def with_environment(result: T, record: EnvironmentRecord) -> T:
    """`result`; if nothing was found or chosen in a broken environment, it says that first."""
    sentence = record.complaint()
    changed: Any = result
    if sentence and isinstance(result, NoFix):
        changed = replace(result, details=(sentence, *result.details))
    elif sentence and isinstance(result, Selection):
        evidence = result.evidence
        notes = (sentence, *evidence.notes)
        changed = replace(result, evidence=replace(evidence, notes=notes))
    return cast(T, changed)


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
