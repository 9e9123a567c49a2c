"""The models around a model. They are stacked in this order, the first one innermost:

1. `MeteredModel` sets the price aside and counts it, for every attempt;
2. `ThrottledModel` waits for room at the server and repeats what was refused;
3. `FallbackModel` asks the next model when one is down;
4. `InformedModel` tells the solver about the environment;
5. `TimedModel` and `CacheWarmup` belong to one stage of a run.

`bot.runner.models` builds 1 to 3 around a client, `bot.runner.runner` adds 4, and the stages 5.
"""

import asyncio
import dataclasses
import hashlib
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal

from pipeline.budget import CALL_SECONDS, CostBounds, Reservation
from pipeline.concurrency import shield
from pipeline.data.types import Usage
from pipeline.models.base import (
    Model,
    ModelError,
    ModelMisconfigured,
    ModelProfile,
    ModelRequest,
    ModelRetired,
    ModelUnavailable,
    ModelWrapper,
    Reply,
    usage_of,
    with_words,
)
from pipeline.models.metering import Meter, prompt_dollars
from pipeline.run_errors import TimeSpent
from pipeline.store import Store
from sandbox.frozen import Frozen, replace
from sandbox.observation import Kind, observe

logger = logging.getLogger(__name__)

_ROUNDING = 1e-9


class MeteredModel(ModelWrapper):
    """A `Model` whose calls are paid from a `Meter`.

    Raises BudgetSpent before anything is sent if too little money may be left. If there is enough
    for a reply of usual length only, the reply is limited to that length. Calls never exceed the
    ceiling, even if several run at a time.
    """

    def __init__(self, model: Model, meter: Meter) -> None:
        super().__init__(model)
        self._meter = meter

    async def complete(self, request: ModelRequest) -> Reply:
        """A call that failed or was cancelled after the service had counted tokens is counted too,
        under the name that was asked for; a reply under the name that the service answered with.
        """
        texts = [request.system, *(message.text for message in request.messages)]
        pictures = sum(len(message.pictures) for message in request.messages)
        prompt = prompt_dollars(self.profile, texts, pictures=pictures)
        async with self._meter.budget.reserve(self._cost_bounds(request, prompt)) as reservation:
            await self._meter.record_destinations(self.profile.sent_to)
            try:
                reply = await self._send(self._cap_reply(request, reservation.dollars - prompt))
            except (ModelError, asyncio.CancelledError) as error:
                usage = usage_of(error)
                if usage is not None:
                    await shield(self._count(reservation, request.call, self.profile.name, usage))
                raise
            note = UNCOUNTED.format(reply.model) if reply.uncounted else ""
            await self._count(reservation, request.call, reply.model, reply.usage, note)
            return reply

    async def _send(self, request: ModelRequest) -> Reply:
        with observe(Kind.MODEL_CALL, model=self.profile.name, call=request.call) as event:
            async with self._meter.billable():
                reply = await self.model.complete(request)
            used = reply.usage
            event.facts |= {
                "input": used.input + used.cache_write,
                "cached": used.cache_read,
                "output": used.output,
                "dollars": self.profile.price.of(used),
            }
            return reply

    def _cost_bounds(self, request: ModelRequest, prompt: float) -> CostBounds:
        longest = request.max_tokens or self.profile.max_output
        # Nearly every reply is shorter.
        usual = min(longest, 8_000 + self.profile.thinking_tokens)
        least, most = (self.profile.price.of(Usage(output=n)) for n in (usual, longest))
        return CostBounds(prompt + least, prompt + most, CALL_SECONDS)

    def _cap_reply(self, request: ModelRequest, dollars: float) -> ModelRequest:
        """With a reply that costs no more than `dollars`, if the longest would."""
        longest = request.max_tokens or self.profile.max_output
        if self.profile.price.of(Usage(output=longest)) <= dollars * (1 + _ROUNDING):
            return request
        tokens = int(dollars * (1 + _ROUNDING) / self.profile.price.of(Usage(output=1)))
        return dataclasses.replace(request, max_tokens=max(1, tokens))

    async def _count(
        self, reservation: Reservation, call: str, model: str, usage: Usage, note: str = ""
    ) -> None:
        dollars = self.profile.price.of(usage)
        await reservation.settle(dollars)
        note = " ".join(filter(None, (self.profile.price_note, note)))
        await self._meter.add(call, model, usage, dollars, note)


UNCOUNTED: Final = (
    "The service of {} did not say how many tokens it took: a bound is counted, from the length of "
    "what was sent and received."
)


RETRY_WAITS = (1.0, 4.0, 15.0)
"""Seconds before each further attempt, in addition to the two quick retries of the SDK itself."""


class ConcurrencyWindow:
    """The number of parallel calls to one server, which follows what the server can take.

    Additive increase, multiplicative decrease, as in TCP (RFC 5681). Several models may share it.
    """

    def __init__(self, most: int) -> None:
        self.size = float(min(4, most))
        """Between 1 and `most`; the calls in flight never exceed it, rounded down."""
        self.served = 0
        """How many calls have been answered."""
        self._most = most
        self._running = self._waiting = 0
        self._started = 0
        self._started_at_shrink = 0
        """How many calls had begun when the window last shrank."""
        self._room = asyncio.Condition()

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[int]:
        """Wait for room; yields the call's number, for `record_success` and `record_overload`."""
        async with self._room:
            self._waiting += 1
            try:
                await self._room.wait_for(lambda: self._running < int(self.size))
            finally:
                self._waiting -= 1
            self._running += 1
            self._started += 1
            number = self._started
        try:
            yield number
        finally:
            self._running -= 1
            async with self._room:
                self._room.notify(max(0, int(self.size) - self._running))

    def record_success(self) -> None:
        """Grow: by one per call until the first overload, then by one per round of calls."""
        self.served += 1
        # If the window was not full, it was not what held us back.
        if self._waiting or self._running >= int(self.size):
            self.size = min(
                self._most, self.size + (1 / self.size if self._started_at_shrink else 1)
            )

    def record_overload(self, number: int) -> None:
        """Halve the window, once for all calls that were in flight together."""
        if number > self._started_at_shrink:
            self._started_at_shrink = self._started
            self.size = max(1.0, self.size / 2)


class ThrottledModel(ModelWrapper):
    """A `Model` whose calls wait for room in a `ConcurrencyWindow` and are repeated when the server
    is busy.
    """

    def __init__(
        self, model: Model, window: ConcurrencyWindow, *, waits: Sequence[float] = RETRY_WAITS
    ) -> None:
        super().__init__(model)
        self._window = window
        self._waits = tuple(waits)

    async def complete(self, request: ModelRequest) -> Reply:
        """Raise ModelUnavailable after every wait if nobody was served meanwhile: then the server
        is down, not just busy.
        """
        tries = failures = 0
        served = self._window.served
        while True:
            async with self._window.slot() as number:
                try:
                    reply = await self.model.complete(request)
                except ModelUnavailable as error:
                    self._window.record_overload(number)
                    tries += 1
                    failures = 1 if self._window.served > served else failures + 1
                    # Enough failures for one request, however well the server serves others.
                    if failures > len(self._waits) or tries >= 12:
                        raise
                    wait = self._waits[failures - 1]
                    logger.warning("%s Asking again in %.0f s.", with_words(error), wait)
                else:
                    self._window.record_success()
                    return reply
            served = self._window.served
            await asyncio.sleep(wait)


COOLDOWN_SECONDS = 300.0
"""How long a model that was down is skipped, so that not every request waits for it first."""


class _SeveralModels(Model):
    """Models that may answer in turn within one conversation."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = tuple(models)

    @property
    def profile(self) -> ModelProfile:
        """The first model's profile with the smallest window of all, so that prompts fit each."""
        first = self._models[0].profile
        window = min(model.profile.window for model in self._models)
        return replace(first, window=window)


class DrawnModel(_SeveralModels):
    """Draws one of several models for each reply.

    The call's name and the turn decide, so that a run that goes on draws the same.
    """

    async def complete(self, request: ModelRequest) -> Reply:
        turn = sum(message.role == "assistant" for message in request.messages)
        seed = hashlib.sha256(f"{request.call}/{turn}".encode()).digest()
        return await self._models[seed[0] % len(self._models)].complete(request)


class FallbackModel(_SeveralModels):
    """Asks several models in order until one answers; a conversation may move between them.

    The next one is asked after any failure that it may not share. A model that is down, or does not
    accept our key, name or request, is skipped for `COOLDOWN_SECONDS`; one that the service does
    not know (ModelRetired) for good. What one declines or finds too long is no reason to skip it.
    """

    def __init__(
        self, models: Sequence[Model], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`models` in order of preference, at least one; `clock` returns seconds."""
        super().__init__(models)
        self._clock = clock
        self._cooldown_until = [0.0] * len(self._models)

    async def complete(self, request: ModelRequest) -> Reply:
        """Raises the failure that says most when every model fails; see `Model.complete`."""
        failures: list[ModelError] = []
        for i in self._order():
            try:
                reply = await self._models[i].complete(request)
            except ModelError as error:
                self._cooldown_until[i] = self._clock() + _cooldown(error)
                failures.append(error)
            else:
                self._cooldown_until[i] = 0.0
                return reply
        raise min(failures, key=_hopelessness)

    def _order(self) -> list[int]:
        """The models that are up, then those cooling down: each is tried before giving up."""
        now = self._clock()
        return sorted(range(len(self._models)), key=lambda i: (self._cooldown_until[i] > now, i))


def _cooldown(error: ModelError) -> float:
    """Seconds for which a model is skipped after `error`."""
    if isinstance(error, ModelRetired):
        return math.inf
    return COOLDOWN_SECONDS if isinstance(error, ModelUnavailable | ModelMisconfigured) else 0.0


def _hopelessness(error: ModelError) -> int:
    """Waiting helps where a model is down; a conversation that ends costs less than a run."""
    if isinstance(error, ModelUnavailable):
        return 0
    return 2 if isinstance(error, ModelMisconfigured) else 1


class InformedModel(ModelWrapper):
    """A model whose conversations begin with a text about the environment.

    The text precedes the issue, which all machines share, so that a prompt cache holds both.
    """

    def __init__(self, model: Model, text: str, *, without: Iterable[str]) -> None:
        """`without`: the stages that do not get the text."""
        super().__init__(model)
        self._text = text
        self._without = frozenset(without)

    async def complete(self, request: ModelRequest) -> Reply:
        if request.call.split("/")[0] in self._without:
            return await self.model.complete(request)
        first, *rest = request.messages
        opening = replace(first, text=f"{self._text}\n{first.text}")
        return await self.model.complete(dataclasses.replace(request, messages=(opening, *rest)))


class CacheWarmup(ModelWrapper):
    """A model whose first call runs alone, so that a prompt cache is written once, then read.

    Providers make a cached prefix visible when the call that wrote it answers; calls side by side
    would each pay for writing it. If the first call fails, the rest go ahead all the same.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._started = False
        self._done = asyncio.Event()

    async def complete(self, request: ModelRequest) -> Reply:
        first, self._started = not self._started, True
        if not first:
            await self._done.wait()
        try:
            return await self.model.complete(request)
        finally:
            self._done.set()


TimedStage = Literal["samples", "choice", "reproduction"]
_SHARES: Final[dict[TimedStage, float]] = {"samples": 0.6, "choice": 0.85, "reproduction": 1.0}
"""The share of a run's time by which a stage is over: the next one always has time of its own."""
CLOCK_KEY = "clock"


class WorkTime(Frozen):
    seconds: float = 0.0
    """Wall time worked, without the time between two starts of the run."""


class RunClock:
    """The time of one run over all its starts. Use `open` to continue a run's time."""

    def __init__(
        self, minutes: float = 0, *, worked: float = 0.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`minutes` of wall time in all, 0: no limit; `worked` seconds are gone already."""
        self.minutes = minutes
        self._now = now
        self._began = now() - worked
        self._saved = 0.0

    @classmethod
    async def open(cls, store: Store, minutes: float) -> "RunClock":
        """The clock of the run in `store`."""
        saved = await store.load(CLOCK_KEY, WorkTime) or WorkTime()
        return cls(minutes, worked=saved.seconds)

    async def save(self, store: Store) -> None:
        """Save the time worked, now and then: another start of the run continues from there."""
        worked = self._now() - self._began
        if self.minutes and worked - self._saved >= 20.0:
            self._saved = worked
            await store.save(CLOCK_KEY, WorkTime(seconds=round(worked, 1)))

    def seconds_left(self, stage: TimedStage) -> float:
        """Seconds until `stage` must be over; infinite without a limit, negative if it is late."""
        if not self.minutes:
            return math.inf
        return self.minutes * 60 * _SHARES[stage] - (self._now() - self._began)

    def limit(self, model: Model, stage: TimedStage) -> Model:
        """`model`, but it takes no question once `stage` must be over."""
        return TimedModel(model, self, stage) if self.minutes else model


UNLIMITED: Final = RunClock()


class TimedModel(ModelWrapper):
    """Raises TimeSpent instead of asking when the time of its stage is over."""

    def __init__(self, model: Model, clock: RunClock, stage: TimedStage) -> None:
        super().__init__(model)
        self._clock = clock
        self._stage: TimedStage = stage

    async def complete(self, request: ModelRequest) -> Reply:
        if self._clock.seconds_left(self._stage) <= 0:
            raise TimeSpent(self._clock.minutes, self._stage)
        return await self.model.complete(request)
