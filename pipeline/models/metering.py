"""Counts what models cost by stage; refuses calls that could exceed the budget."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, closing, nullcontext
from typing import Any, TypeVar

from pipeline.budget import Budget, CostBounds, SharedBudget
from pipeline.data.progress import OnProgress, Spent
from pipeline.data.types import Account, Usage
from pipeline.models.base import Likelihood, ModelProfile, ScoreUnavailable
from pipeline.models.spec import UNKNOWN_HOST
from pipeline.store import Store
from sandbox.frozen import Frozen, replace

T = TypeVar("T")
LEDGER_KEY = "ledger"


CEILING_KEY = "ceiling"


class RaisedCeiling(Frozen):
    """The ceiling of a run that a person has raised since it began."""

    dollars: float


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
    ) -> "Ledger":
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


class Meter:
    """The accounts and the budget of one run, shared by all its models."""

    def __init__(
        self,
        store: Store,
        ceiling: float,
        ledger: Ledger,
        shared: SharedBudget | None = None,
        billable: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        on_progress: OnProgress | None = None,
    ) -> None:
        """`ceiling` in US dollars; `billable` surrounds every call. Use `open` to
        resume a run's accounts."""
        self.billable = billable
        self._on_progress = on_progress
        self.ledger = ledger
        self.budget = Budget(
            ceiling, spent=ledger.dollars, shared=shared, find_raised=self._find_raised
        )
        self._store = store
        self._saving = asyncio.Lock()
        self._recorded = ledger.sent_to

    @classmethod
    async def open(
        cls,
        store: Store,
        ceiling: float,
        shared: SharedBudget | None = None,
        billable: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        on_progress: OnProgress | None = None,
    ) -> "Meter":
        """The meter of the run in `store`, including what was spent before a crash."""
        ledger = await store.load(LEDGER_KEY, Ledger) or Ledger()
        meter = cls(store, ceiling, ledger, shared, billable, on_progress)
        meter.report()
        return meter

    async def _find_raised(self) -> float:
        raised = await self._store.load(CEILING_KEY, RaisedCeiling)
        return raised.dollars if raised else 0.0

    def report(self) -> None:
        if self._on_progress:
            self._on_progress(Spent(self.ledger.dollars, self.budget.ceiling))

    def accounts(self) -> tuple[Account, ...]:
        return self.ledger.accounts

    async def record_destinations(self, hosts: Iterable[str]) -> None:
        """Record where code goes, before it is sent: a failing request sends it as well."""
        async with self._saving:  # of several requests at once, none is sent before the record
            noted = (*self.ledger.sent_to, *(tuple(hosts) or [UNKNOWN_HOST]))
            sent_to = tuple(dict.fromkeys(noted))
            if sent_to != self._recorded:
                self.ledger = replace(self.ledger, sent_to=sent_to)
                await self._store.save(LEDGER_KEY, self.ledger)
                self._recorded = sent_to

    async def add(
        self, call: str, model: str, usage: Usage, dollars: float, price_note: str = ""
    ) -> None:
        """Count one call, and save the count before the reply is used."""
        self.ledger = self.ledger.with_call(call, model, usage, dollars, price_note)
        async with self._saving:  # an older ledger must never overwrite a newer one
            await self._store.save(LEDGER_KEY, self.ledger)
        self.budget.ceiling = max(self.budget.ceiling, await self._find_raised())
        self.report()


def prompt_dollars(profile: ModelProfile, texts: Iterable[str], *, pictures: int = 0) -> float:
    """US dollars at most for sending `texts` and so many pictures."""
    tokens = most_tokens(texts, pictures=pictures)
    return max(profile.price.input, profile.price.cache_write) * tokens / 1_000_000


def most_tokens(texts: Iterable[str], *, pictures: int = 0) -> int:
    """More tokens than any tokenizer makes of long `texts` and so many pictures."""
    tokens = sum(len(text.encode("utf-8", "replace")) for text in texts) // 2 + 1
    return tokens + pictures * 5_000  # platform.claude.com/docs/en/build-with-claude/vision


async def run_metered(
    meter: Meter,
    profile: ModelProfile,
    call: Coroutine[Any, Any, tuple[T, Usage]],
    *,
    stage: str,
    texts: Iterable[str],
) -> T:
    """Await `call`, which sends `texts` outside a `Model`; reserve its price first.

    Raises BudgetSpent, before anything is sent.
    """
    dollars = prompt_dollars(profile, texts)
    with closing(call):  # it is never begun where the money is spent
        async with meter.budget.reserve(CostBounds(dollars, dollars)) as reservation:
            await meter.record_destinations(profile.sent_to)
            async with meter.billable():
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
