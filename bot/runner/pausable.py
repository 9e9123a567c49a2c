"""Models that a draining worker can stop between two calls."""

from __future__ import annotations

from collections.abc import Mapping

from bot.storage.draining import InFlightWork
from pipeline.models.base import Model, ModelProfile, ModelRequest, Reply
from pipeline.models.likelihood import Likelihood
from pipeline.models.wrappers.base import ModelWrapper
from pipeline.types import Usage


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
