"""Counts what models cost, by stage; refuses further calls at the ceiling; survives a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from pipeline.errors import BudgetSpent
from pipeline.models.base import Message, Model, ModelError, ModelProfile, Reply, Usage
from pipeline.store import Store
from pipeline.types import Account

LEDGER_KEY = "ledger"


class Ledger(BaseModel):
    """One line for each stage and model, in the order of their first calls."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accounts: tuple[Account, ...] = ()

    @property
    def dollars(self) -> float:
        return sum(account.dollars for account in self.accounts)

    def plus(self, call: str, model: str, usage: Usage, dollars: float) -> Ledger:
        """With one more call; its stage is what stands before the slash of `call`."""
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
        )
        return Ledger(accounts=tuple(lines.values()))


class Meter:
    """The purse of one run, shared by all its models."""

    def __init__(self, store: Store, ceiling: float, ledger: Ledger) -> None:
        """`ceiling` in US dollars. To go on from what was spent before, use `open`."""
        self.ceiling = ceiling
        self.ledger = ledger
        self._store = store
        self._saving = asyncio.Lock()

    @classmethod
    async def open(cls, store: Store, ceiling: float) -> Meter:
        """The purse of the run kept in `store`, with what it spent before a crash."""
        return cls(store, ceiling, await store.load(LEDGER_KEY, Ledger) or Ledger())

    def accounts(self) -> tuple[Account, ...]:
        return self.ledger.accounts

    def check(self) -> None:
        """Raises BudgetSpent when the ceiling is reached.

        Calls in flight are not counted before they end, so the ceiling can be passed by as many
        calls as run at a time.
        """
        spent = self.ledger.dollars
        if spent >= self.ceiling:
            raise BudgetSpent(spent, self.ceiling)

    async def add(self, call: str, model: str, usage: Usage, dollars: float) -> None:
        """Count one call, and keep the count before anybody sees its reply."""
        self.ledger = self.ledger.plus(call, model, usage, dollars)
        async with self._saving:  # an older ledger may never be written over a newer one
            await self._store.save(LEDGER_KEY, self.ledger)


class Metered:
    """A `Model` whose calls are paid from a `Meter`.

    Put it inside `Throttled`, so that each attempt of a retried call is checked and counted.
    """

    def __init__(self, model: Model, meter: Meter) -> None:
        self._model = model
        self._meter = meter

    @property
    def profile(self) -> ModelProfile:
        return self._model.profile

    async def complete(
        self,
        system: str,
        messages: Sequence[Message],
        *,
        call: str,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Reply:
        """See `Model.complete`. Also raises BudgetSpent, before anything is sent.

        A call that failed after the service had counted tokens is counted too, under the name
        that was asked for; a reply is counted under the name that the service answered with.
        """
        self._meter.check()
        try:
            reply = await self._model.complete(
                system, messages, call=call, temperature=temperature, max_tokens=max_tokens
            )
        except ModelError as error:
            if error.usage is not None:
                await self._count(call, self.profile.name, error.usage)
            raise
        await self._count(call, reply.model, reply.usage)
        return reply

    async def _count(self, call: str, model: str, usage: Usage) -> None:
        await self._meter.add(call, model, usage, self.profile.price.of(usage))
