"""Goes on with another model while the first one is down, or when it was retired."""

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
"""How long a model that was down is left alone, so that not every question waits for it first."""


class FallbackModel(Model):
    """The first of several models that answers; a conversation may move between them.

    A model that is down (ModelUnavailable, after the waits of `ThrottledModel`) is skipped for
    `COOLDOWN_SECONDS`; a model that the service does not know (ModelRetired) is skipped for good.
    If the next model's window is too small for the conversation, the first model's error is raised.
    """

    def __init__(
        self, models: Sequence[Model], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`models` in order of preference, at least one; `clock` gives seconds."""
        self._models = tuple(models)
        self._clock = clock
        self._cooldown_until = [0.0] * len(self._models)

    @property
    def profile(self) -> ModelProfile:
        """The first one's, with the narrowest window of all: what is planned must fit each."""
        first = self._models[0].profile
        window = min(model.profile.window for model in self._models)
        return replace(first, window=window)

    async def complete(self, request: ModelRequest) -> Reply:
        """Raises as `Model.complete`: of several failures the first."""
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
        """Those that do not rest, then the others, so that each is tried before giving up."""
        now = self._clock()
        return sorted(range(len(self._models)), key=lambda i: (self._cooldown_until[i] > now, i))


def _failure_to_raise(
    failed: ModelUnavailable | ModelRetired | None, error: ModelUnavailable | ModelRetired
) -> ModelUnavailable | ModelRetired:
    """What passes by itself is worth waiting for; what does not is told only if all are so."""
    if failed is None or (
        isinstance(error, ModelUnavailable) and not isinstance(failed, ModelUnavailable)
    ):
        return error
    return failed
