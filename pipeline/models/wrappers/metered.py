"""Counts what models cost, by stage; refuses calls that could pass a ceiling; survives a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import closing
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from pipeline.budget import CALL_SECONDS, Budget, Purse, Reservation, Wish
from pipeline.concurrency import apart
from pipeline.models.base import Model, ModelError, ModelProfile, Reply, usage_of
from pipeline.models.destinations import UNKNOWN
from pipeline.models.wrappers.base import Question, Wrapper
from pipeline.store import Store
from pipeline.types import Account, Usage

BYTES_PER_TOKEN = 2
"""Fewer than any tokenizer needs for a long text, so that a prompt is never dearer than guessed."""
USUAL_REPLY = 8_000
"""Tokens that nearly every reply keeps to."""
_ROUNDING = 1e-9
T = TypeVar("T")
LEDGER_KEY = "ledger"


class Ledger(BaseModel):
    """One line for each stage and model, in the order of their first calls."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accounts: tuple[Account, ...] = ()
    sent_to: tuple[str, ...] = ()
    """The hosts that code was sent to, or was about to be; `UNKNOWN` among them where one is."""

    @property
    def dollars(self) -> float:
        return sum(account.dollars for account in self.accounts)

    def plus(
        self, call: str, model: str, usage: Usage, dollars: float, price_note: str = ""
    ) -> Ledger:
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
            price_note=price_note or old.price_note,
        )
        return Ledger(accounts=tuple(lines.values()), sent_to=self.sent_to)

    def sending(self, hosts: Iterable[str]) -> Ledger:
        return self.model_copy(update={"sent_to": tuple(dict.fromkeys((*self.sent_to, *hosts)))})


class Meter:
    """The accounts and the budget of one run, shared by all its models."""

    def __init__(
        self, store: Store, ceiling: float, ledger: Ledger, purse: Purse | None = None
    ) -> None:
        """`ceiling` in US dollars. To go on from what was spent before, use `open`."""
        self.ledger = ledger
        self.budget = Budget(ceiling, spent=ledger.dollars, purse=purse)
        self._store = store
        self._saving = asyncio.Lock()

    @classmethod
    async def open(cls, store: Store, ceiling: float, purse: Purse | None = None) -> Meter:
        """The meter of the run kept in `store`, with what it spent before a crash."""
        ledger = await store.load(LEDGER_KEY, Ledger) or Ledger()
        if ledger.accounts and not ledger.sent_to:  # an older Capuchin's, which did not note it
            ledger = ledger.sending([UNKNOWN])
        return cls(store, ceiling, ledger, purse)

    def accounts(self) -> tuple[Account, ...]:
        return self.ledger.accounts

    async def sends(self, hosts: Iterable[str]) -> None:
        """Note where code goes, before it does: what is asked and fails was sent all the same."""
        noted = self.ledger.sending(tuple(hosts) or [UNKNOWN])
        if noted != self.ledger:
            self.ledger = noted
            async with self._saving:
                await self._store.save(LEDGER_KEY, self.ledger)

    async def add(
        self, call: str, model: str, usage: Usage, dollars: float, price_note: str = ""
    ) -> None:
        """Count one call, and keep the count before anybody sees its reply."""
        self.ledger = self.ledger.plus(call, model, usage, dollars, price_note)
        async with self._saving:  # an older ledger may never be written over a newer one
            await self._store.save(LEDGER_KEY, self.ledger)


class Metered(Wrapper):
    """A `Model` whose calls are paid from a `Meter`.

    Raises BudgetSpent before anything is sent when what is left may be too little. Where it is
    enough for a reply of usual length only, the reply may be no longer than that: the ceiling is
    passed by no call, also when several run at a time.

    Put it inside `Throttled`, so that each attempt of a retried call is checked and counted.
    """

    def __init__(self, model: Model, meter: Meter, *, seconds: float = CALL_SECONDS) -> None:
        """`seconds`: how long a call may take; for so long money is set aside for it."""
        super().__init__(model)
        self._meter = meter
        self._seconds = seconds

    async def answer(self, question: Question) -> Reply:
        """A call that failed or was cancelled after the service had counted tokens is counted too,
        under the name that was asked for; a reply under the name that the service answered with.
        """
        prompt = self._prompt(question)
        async with self._meter.budget.reserved(self._wish(question, prompt)) as slip:
            await self._meter.sends(self.profile.sent_to)
            try:
                reply = await self._capped(question, slip.granted - prompt).put_to(self.model)
            except (ModelError, asyncio.CancelledError) as error:
                usage = usage_of(error)
                if usage is not None:
                    await apart(self._count(slip, question.call, self.profile.name, usage))
                raise
            await self._count(slip, question.call, reply.model, reply.usage)
            return reply

    def _prompt(self, question: Question) -> float:
        """US dollars at most for what is sent."""
        texts = [question.system, *(message.text for message in question.messages)]
        return prompt_dollars(self.profile, texts)

    def _wish(self, question: Question, prompt: float) -> Wish:
        longest = question.max_tokens or self.profile.max_output
        usual = min(longest, USUAL_REPLY + self.profile.thinking_tokens)
        least, most = (self.profile.price.of(Usage(output=n)) for n in (usual, longest))
        return Wish(prompt + least, prompt + most, self._seconds)

    def _capped(self, question: Question, dollars: float) -> Question:
        """With a reply that costs no more than `dollars`, if the longest would."""
        longest = question.max_tokens or self.profile.max_output
        if self.profile.price.of(Usage(output=longest)) <= dollars * (1 + _ROUNDING):
            return question
        tokens = int(dollars * (1 + _ROUNDING) / self.profile.price.of(Usage(output=1)))
        return question.at_most(max(1, tokens))

    async def _count(self, slip: Reservation, call: str, model: str, usage: Usage) -> None:
        dollars = self.profile.price.of(usage)
        await slip.settle(dollars)
        await self._meter.add(call, model, usage, dollars, self.profile.price_note)


def prompt_dollars(profile: ModelProfile, texts: Iterable[str]) -> float:
    """US dollars at most for sending `texts`."""
    tokens = sum(len(text.encode("utf-8", "replace")) for text in texts) // BYTES_PER_TOKEN + 1
    return max(profile.price.input, profile.price.cache_write) * tokens / 1_000_000


async def paid(
    meter: Meter,
    profile: ModelProfile,
    asked: Coroutine[Any, Any, tuple[T, Usage]],
    *,
    stage: str,
    texts: Iterable[str],
) -> T:
    """What comes of `asked`, a question of `texts` that no `Model` is put, its price set aside
    before and counted after.

    Raises BudgetSpent, before anything is sent.
    """
    dollars = prompt_dollars(profile, texts)
    with closing(asked):  # it is never begun where the money is spent
        async with meter.budget.reserved(Wish(dollars, dollars)) as slip:
            await meter.sends(profile.sent_to)
            value, usage = await asked
            cost = profile.price.of(usage)
            await slip.settle(cost)
            await meter.add(stage, profile.name, usage, cost, profile.price_note)
    return value
