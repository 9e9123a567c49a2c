"""Counts what models cost by stage; refuses calls that could exceed the budget."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine, Iterable
from contextlib import closing
from typing import Any, TypeVar

from pipeline.budget import CALL_SECONDS, Budget, CostBounds, Reservation, SharedBudget
from pipeline.concurrency import shield
from pipeline.data.types import Account, Usage
from pipeline.models.base import (
    Likelihood,
    Model,
    ModelError,
    ModelProfile,
    ModelRequest,
    Reply,
    ScoreUnavailable,
    usage_of,
)
from pipeline.models.spec import UNKNOWN_HOST
from pipeline.store import Store
from sandbox.frozen import Frozen, replace
from sandbox.observation import Kind, observe


class ModelWrapper(Model):
    """A `Model` around another one. Subclasses implement `complete`."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def profile(self) -> ModelProfile:
        return self.model.profile


BYTES_PER_TOKEN = 2
"""Fewer than any tokenizer needs for a long text, so that we never estimate too few tokens."""
TYPICAL_REPLY_TOKENS = 8_000
"""Tokens that nearly every reply stays below."""
_ROUNDING = 1e-9
T = TypeVar("T")
LEDGER_KEY = "ledger"


class Ledger(Frozen):
    """One account for each stage and model, in the order of their first calls."""

    accounts: tuple[Account, ...] = ()
    sent_to: tuple[str, ...] = ()
    """The hosts that code was, or was about to be, sent to; `UNKNOWN_HOST` if one is unknown."""

    @property
    def dollars(self) -> float:
        return sum(account.dollars for account in self.accounts)

    def with_call(
        self, call: str, model: str, usage: Usage, dollars: float, price_note: str = ""
    ) -> Ledger:
        """This ledger with one more call, whose stage is the part of `call` before the slash."""
        stage = call.partition("/")[0]
        lines = {(account.stage, account.model): account for account in self.accounts}
        empty = Account(stage=stage, model=model, calls=0, usage=Usage(), dollars=0)
        old = lines.get((stage, model), empty)
        lines[stage, model] = Account(
            stage=stage,
            model=model,
            calls=old.calls + 1,
            usage=old.usage + usage,
            dollars=old.dollars + dollars,
            price_note=price_note or old.price_note,
        )
        return Ledger(accounts=tuple(lines.values()), sent_to=self.sent_to)

    def with_destinations(self, hosts: Iterable[str]) -> Ledger:
        return replace(self, sent_to=tuple(dict.fromkeys((*self.sent_to, *hosts))))


class Meter:
    """The accounts and the budget of one run, shared by all its models."""

    def __init__(
        self, store: Store, ceiling: float, ledger: Ledger, shared: SharedBudget | None = None
    ) -> None:
        """`ceiling` in US dollars. Use `open` to resume a run's accounts."""
        self.ledger = ledger
        self.budget = Budget(ceiling, spent=ledger.dollars, shared=shared)
        self._store = store
        self._saving = asyncio.Lock()
        self._recorded = ledger.sent_to
        """What the store says of where code goes."""

    @classmethod
    async def open(cls, store: Store, ceiling: float, shared: SharedBudget | None = None) -> Meter:
        """The meter of the run in `store`, including what was spent before a crash."""
        ledger = await store.load(LEDGER_KEY, Ledger) or Ledger()
        if ledger.accounts and not ledger.sent_to:  # an older Capuchin's, which did not note it
            ledger = ledger.with_destinations([UNKNOWN_HOST])
        return cls(store, ceiling, ledger, shared)

    def accounts(self) -> tuple[Account, ...]:
        return self.ledger.accounts

    async def record_destinations(self, hosts: Iterable[str]) -> None:
        """Record where code goes, before it is sent: a failing request sends it as well."""
        async with self._saving:  # of several requests at once, none is sent before the record
            noted = self.ledger.with_destinations(tuple(hosts) or [UNKNOWN_HOST])
            if noted.sent_to != self._recorded:
                self.ledger = noted
                await self._store.save(LEDGER_KEY, self.ledger)
                self._recorded = noted.sent_to

    async def add(
        self, call: str, model: str, usage: Usage, dollars: float, price_note: str = ""
    ) -> None:
        """Count one call, and save the count before the reply is used."""
        self.ledger = self.ledger.with_call(call, model, usage, dollars, price_note)
        async with self._saving:  # an older ledger must never overwrite a newer one
            await self._store.save(LEDGER_KEY, self.ledger)


class MeteredModel(ModelWrapper):
    """A `Model` whose calls are paid from a `Meter`.

    Raises BudgetSpent before anything is sent when what is left may be too little. Where it is
    enough for a reply of usual length only, the reply may be no longer than that: the ceiling is
    passed by no call, also when several run at a time.

    Put it inside `ThrottledModel`, so that each attempt of a retried call is checked and counted.
    """

    def __init__(self, model: Model, meter: Meter, *, seconds: float = CALL_SECONDS) -> None:
        """`seconds`: how long a call may take; for so long money is set aside for it."""
        super().__init__(model)
        self._meter = meter
        self._seconds = seconds

    async def complete(self, request: ModelRequest) -> Reply:
        """A call that failed or was cancelled after the service had counted tokens is counted too,
        under the name that was asked for; a reply under the name that the service answered with.
        """
        prompt = self._prompt_dollars(request)
        async with self._meter.budget.reserve(self._cost_bounds(request, prompt)) as reservation:
            await self._meter.record_destinations(self.profile.sent_to)
            try:
                capped = self._cap_reply(request, reservation.dollars - prompt)
                reply = await self._send(capped)
            except (ModelError, asyncio.CancelledError) as error:
                usage = usage_of(error)
                if usage is not None:
                    await shield(self._count(reservation, request.call, self.profile.name, usage))
                raise
            await self._count(reservation, request.call, reply.model, reply.usage)
            return reply

    async def _send(self, request: ModelRequest) -> Reply:
        with observe(Kind.MODEL_CALL, model=self.profile.name, call=request.call) as event:
            reply = await self.model.complete(request)
            used = reply.usage
            event.facts |= {
                "input": used.input + used.cache_write,
                "cached": used.cache_read,
                "output": used.output,
                "dollars": self.profile.price.of(used),
            }
            return reply

    def _prompt_dollars(self, request: ModelRequest) -> float:
        """US dollars at most for what is sent."""
        texts = [request.system, *(message.text for message in request.messages)]
        return prompt_dollars(self.profile, texts)

    def _cost_bounds(self, request: ModelRequest, prompt: float) -> CostBounds:
        longest = request.max_tokens or self.profile.max_output
        usual = min(longest, TYPICAL_REPLY_TOKENS + self.profile.thinking_tokens)
        least, most = (self.profile.price.of(Usage(output=n)) for n in (usual, longest))
        return CostBounds(prompt + least, prompt + most, self._seconds)

    def _cap_reply(self, request: ModelRequest, dollars: float) -> ModelRequest:
        """With a reply that costs no more than `dollars`, if the longest would."""
        longest = request.max_tokens or self.profile.max_output
        if self.profile.price.of(Usage(output=longest)) <= dollars * (1 + _ROUNDING):
            return request
        tokens = int(dollars * (1 + _ROUNDING) / self.profile.price.of(Usage(output=1)))
        return dataclasses.replace(request, max_tokens=max(1, tokens))

    async def _count(self, reservation: Reservation, call: str, model: str, usage: Usage) -> None:
        dollars = self.profile.price.of(usage)
        await reservation.settle(dollars)
        await self._meter.add(call, model, usage, dollars, self.profile.price_note)


def prompt_dollars(profile: ModelProfile, texts: Iterable[str]) -> float:
    """US dollars at most for sending `texts`."""
    tokens = sum(len(text.encode("utf-8", "replace")) for text in texts) // BYTES_PER_TOKEN + 1
    return max(profile.price.input, profile.price.cache_write) * tokens / 1_000_000


async def run_metered(
    meter: Meter,
    profile: ModelProfile,
    call: Coroutine[Any, Any, tuple[T, Usage]],
    *,
    stage: str,
    texts: Iterable[str],
) -> T:
    """What comes of `call`, a question of `texts` that no `Model` is put, its price set aside
    before and counted after.

    Raises BudgetSpent, before anything is sent.
    """
    dollars = prompt_dollars(profile, texts)
    with closing(call):  # it is never begun where the money is spent
        async with meter.budget.reserve(CostBounds(dollars, dollars)) as reservation:
            await meter.record_destinations(profile.sent_to)
            value, usage = await call
            cost = profile.price.of(usage)
            await reservation.settle(cost)
            await meter.add(stage, profile.name, usage, cost, profile.price_note)
    return value


GOOD, BAD = "+", "-"
"""The verdict's tokens."""
_FLOOR = -20.0
"""The log-probability of a token that is not among the likeliest ones."""


async def ask_verdict(
    model: Likelihood, meter: Meter, system: str, question: str, *, call: str
) -> float:
    """The log-odds of `+` against `-` as the first token of the answer.

    The price is counted under the part of `call` before its slash.

    Raises:
        ModelError: the call failed.
        ScoreUnavailable: no log-probabilities, or the answer begins with neither.
        BudgetSpent: the ceiling is reached; nothing was sent.
    """
    chances = await run_metered(
        meter,
        model.profile,
        model.first_token(system, question, call=call),
        stage=call.partition("/")[0],
        texts=(system, question),
    )
    if GOOD not in chances and BAD not in chances:
        raise ScoreUnavailable(f"The reward model's verdict is neither {GOOD} nor {BAD}.")
    return chances.get(GOOD, _FLOOR) - chances.get(BAD, _FLOOR)
