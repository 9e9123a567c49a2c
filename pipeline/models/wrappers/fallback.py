"""Switches to another model while the first one is down, or when it was retired."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pipeline.models.base import (
    ContextTooLong,
    Model,
    ModelProfile,
    ModelRequest,
    ModelRetired,
    ModelUnavailable,
    Reply,
)
from pipeline.types import replace

COOLDOWN_SECONDS = 300.0
"""How long a model that was down is skipped, so that not every request waits for it first."""


class FallbackModel(Model):
    """Asks several models in order until one answers; a conversation may move between them.

    A model that is down (ModelUnavailable, after the waits of `ThrottledModel`) is skipped for
    `COOLDOWN_SECONDS`; a model that the service does not know (ModelRetired) is skipped for good.
    If the next model's window is too small for the conversation, the first model's error is raised.
    """

    def __init__(
        self, models: Sequence[Model], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`models` in order of preference, at least one; `clock` returns seconds."""
        self._models = tuple(models)
        self._clock = clock
        self._cooldown_until = [0.0] * len(self._models)

    @property
    def profile(self) -> ModelProfile:
        """The first model's profile with the smallest window of all, so that prompts fit each."""
        first = self._models[0].profile
        window = min(model.profile.window for model in self._models)
        return replace(first, window=window)

    async def complete(self, request: ModelRequest) -> Reply:
        """Raises the first failure when every model fails; see `Model.complete`."""
        failed: ModelUnavailable | ModelRetired | None = None
        for i in self._order():
            try:
                reply = await self._models[i].complete(request)
            except (ModelUnavailable, ModelRetired) as error:
                passes = isinstance(error, ModelUnavailable)
                self._cooldown_until[i] = (
                    self._clock() + COOLDOWN_SECONDS if passes else float("inf")
                )
                failed = _failure_to_raise(failed, error)
            except ContextTooLong:
                if failed is None:
                    raise
            else:
                self._cooldown_until[i] = 0.0
                return reply
        assert failed is not None
        raise failed

    def _order(self) -> list[int]:
        """The models that are up, then those cooling down: each is tried before giving up."""
        now = self._clock()
        return sorted(range(len(self._models)), key=lambda i: (self._cooldown_until[i] > now, i))


def _failure_to_raise(
    failed: ModelUnavailable | ModelRetired | None, error: ModelUnavailable | ModelRetired
) -> ModelUnavailable | ModelRetired:
    """The first temporary failure, since waiting can help there; else the first failure."""
    if failed is None or (
        isinstance(error, ModelUnavailable) and not isinstance(failed, ModelUnavailable)
    ):
        return error
    return failed
