"""Metering, throttling and cache warm-up around a scripted model."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import BaseModel

from pipeline.concurrency import gather_all
from pipeline.data.progress import Spent
from pipeline.data.types import Account, Usage
from pipeline.models.base import (
    Message,
    Model,
    ModelMisconfigured,
    ModelProfile,
    ModelRequest,
    ModelUnavailable,
    Price,
    Reply,
)
from pipeline.models.metering import CEILING_KEY, Ledger, Meter, RaisedCeiling
from pipeline.models.spec import UNKNOWN_HOST
from pipeline.models.wrappers import CacheWarmup, ConcurrencyWindow, MeteredModel, ThrottledModel
from pipeline.run_errors import BudgetSpent
from pipeline.store import DirStore
from sandbox.frozen import replace

SAID = (Message(role="user", text="Hello?"),)
DOLLAR = Usage(output=1_000_000)
PROFILE = ModelProfile(
    provider="anthropic",
    name="scripted",
    window=1000,
    max_output=100,
    sampling=False,
    price=Price(output=1),
)


def question(call: str = "testing/0") -> ModelRequest:
    return ModelRequest("", SAID, call=call)


class Scripted(Model):
    """Answers what it is told to, each reply for a dollar, and watches how many ask at a time."""

    def __init__(self, *outcomes: str | Exception) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[str] = []
        self.inside = self.most_inside = 0

    @property
    def profile(self) -> ModelProfile:
        return PROFILE

    async def complete(self, request: ModelRequest) -> Reply:
        self.asked.append(request.call)
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        for _ in range(3):
            await asyncio.sleep(0)
        self.inside -= 1
        outcome = self.outcomes.pop(0) if self.outcomes else "yes"
        if isinstance(outcome, Exception):
            raise outcome
        return Reply(text=outcome, usage=DOLLAR, model="recorded-scripted")


async def _metered(model: Scripted, root: Path, ceiling: float = 10) -> tuple[MeteredModel, Meter]:
    meter = await Meter.open(DirStore(root), ceiling)
    return MeteredModel(model, meter), meter


async def test_calls_are_counted_by_stage_and_by_the_name_that_answered(tmp_path: Path) -> None:
    metered, meter = await _metered(Scripted(), tmp_path)
    for call in ("testing/0", "testing/1", "ranking/0"):
        await metered.complete(question(call))
    name = "recorded-scripted"
    assert meter.accounts() == (
        Account(stage="testing", model=name, calls=2, usage=DOLLAR + DOLLAR, dollars=2),
        Account(stage="ranking", model=name, calls=1, usage=DOLLAR, dollars=1),
    )
    assert metered.profile is PROFILE


async def test_nothing_is_sent_once_the_ceiling_is_reached(tmp_path: Path) -> None:
    model = Scripted()
    metered, _ = await _metered(model, tmp_path, ceiling=2)
    await metered.complete(question())
    await metered.complete(question("testing/1"))
    with pytest.raises(BudgetSpent) as caught:
        await metered.complete(question("testing/2"))
    assert str(caught.value) == "$2.00 of $2.00 is spent."
    assert model.asked == ["testing/0", "testing/1"]


async def test_a_ceiling_that_a_person_raises_holds_from_the_next_call_on(tmp_path: Path) -> None:
    metered, meter = await _metered(Scripted(), tmp_path, ceiling=1)
    await metered.complete(question())
    await DirStore(tmp_path).save(CEILING_KEY, RaisedCeiling(dollars=2))
    await metered.complete(question("testing/1"))
    told: list[object] = []
    Meter(DirStore(tmp_path), meter.budget.ceiling, meter.ledger, on_progress=told.append).report()
    assert told == [Spent(2, ceiling=2)]
    with pytest.raises(BudgetSpent) as caught:
        await metered.complete(question("testing/2"))
    assert str(caught.value) == "$2.00 of $2.00 is spent."


async def test_spending_survives_a_crash(tmp_path: Path) -> None:
    metered, _ = await _metered(Scripted(), tmp_path, ceiling=1)
    await metered.complete(question())
    again, meter = await _metered(Scripted(), tmp_path, ceiling=1)
    assert meter.ledger.dollars == 1
    with pytest.raises(BudgetSpent):
        await again.complete(question("testing/1"))


async def test_a_failed_call_costs_what_the_service_had_counted(tmp_path: Path) -> None:
    model = Scripted(ModelUnavailable("cut", DOLLAR), ModelMisconfigured("no"))
    metered, meter = await _metered(model, tmp_path)
    for _ in range(2):
        with pytest.raises((ModelUnavailable, ModelMisconfigured)):
            await metered.complete(question())
    (account,) = meter.accounts()
    assert (account.model, account.calls, account.dollars) == ("scripted", 1, 1)


async def test_calls_side_by_side_leave_the_whole_ledger_in_the_store(tmp_path: Path) -> None:
    metered, meter = await _metered(Scripted(), tmp_path, ceiling=100)
    await gather_all(metered.complete(question(f"relevance/{i}")) for i in range(20))
    kept = await DirStore(tmp_path).load("ledger", Ledger)
    assert kept == meter.ledger
    assert meter.ledger.dollars == 20


async def test_two_models_share_one_purse(tmp_path: Path) -> None:
    first, meter = await _metered(Scripted(), tmp_path, ceiling=1)
    second = MeteredModel(Scripted(), meter)
    await first.complete(question("relevance/0"))
    with pytest.raises(BudgetSpent):
        await second.complete(question())


async def test_no_more_calls_run_at_a_time_than_are_allowed() -> None:
    model = Scripted()
    throttled = ThrottledModel(model, ConcurrencyWindow(3))
    await gather_all(throttled.complete(question(f"testing/{i}")) for i in range(10))
    assert model.most_inside == 3
    assert len(model.asked) == 10


async def test_models_with_the_same_window_share_it() -> None:
    model, window = Scripted(), ConcurrencyWindow(2)
    pair = [ThrottledModel(model, window), ThrottledModel(model, window)]
    await gather_all(pair[i % 2].complete(question(f"testing/{i}")) for i in range(8))
    assert model.most_inside == 2


async def test_what_passes_by_itself_is_waited_out() -> None:
    model = Scripted(ModelUnavailable("busy"), ModelUnavailable("busy"), "yes")
    throttled = ThrottledModel(model, ConcurrencyWindow(1), waits=(0, 0))
    reply = await throttled.complete(question())
    assert reply.text == "yes"
    assert throttled.profile is PROFILE


async def test_a_service_that_stays_down_is_given_up_after_the_last_wait() -> None:
    model = Scripted(*[ModelUnavailable("busy")] * 9)
    throttled = ThrottledModel(model, ConcurrencyWindow(1), waits=(0, 0))
    with pytest.raises(ModelUnavailable):
        await throttled.complete(question())
    assert len(model.asked) == 3
    assert model.inside == 0


async def test_what_retrying_cannot_help_is_not_retried() -> None:
    model = Scripted(ModelMisconfigured("bad key"))
    with pytest.raises(ModelMisconfigured):
        await ThrottledModel(model, ConcurrencyWindow(1), waits=(0, 0)).complete(question())
    assert len(model.asked) == 1


async def test_every_attempt_of_a_retried_call_is_checked_and_counted(tmp_path: Path) -> None:
    model = Scripted(*[ModelUnavailable("cut", DOLLAR)] * 9)
    metered, meter = await _metered(model, tmp_path, ceiling=2)
    with pytest.raises(BudgetSpent):
        await ThrottledModel(metered, ConcurrencyWindow(1), waits=(0,) * 5).complete(question())
    assert meter.ledger.dollars == 2
    assert len(model.asked) == 2


class Talking(Scripted):
    """Says as much as it may: a dollar for a million tokens, and up to a million of them."""

    @property
    def profile(self) -> ModelProfile:
        return replace(PROFILE, max_output=1_000_000)

    async def complete(self, request: ModelRequest) -> Reply:
        await super().complete(request)
        said = request.max_tokens or self.profile.max_output
        return Reply(text="yes", usage=Usage(output=said), model="recorded-scripted")


async def test_a_reply_may_be_no_longer_than_what_is_left_can_pay(tmp_path: Path) -> None:
    metered, meter = await _metered(Talking(), tmp_path, ceiling=1.5)
    for _ in range(2):
        await metered.complete(question())
    assert meter.ledger.dollars == pytest.approx(1.5)
    with pytest.raises(BudgetSpent):
        await metered.complete(question())


async def test_calls_side_by_side_do_not_pass_the_ceiling(tmp_path: Path) -> None:
    model = Talking()
    metered, meter = await _metered(model, tmp_path, ceiling=2.5)

    async def ask(number: int) -> bool:
        try:
            await metered.complete(question(f"testing/{number}"))
        except BudgetSpent:
            return False
        return True

    answered = await gather_all(ask(n) for n in range(8))
    assert meter.ledger.dollars <= 2.5 + 1e-6
    assert sum(answered) == 3, "two whole replies, and half a one"


async def test_what_is_left_is_not_spent_on_a_reply_that_is_too_short(tmp_path: Path) -> None:
    metered, _ = await _metered(Talking(), tmp_path, ceiling=1.005)
    await metered.complete(question())
    with pytest.raises(BudgetSpent, match=r"\$1.00 of"):
        await metered.complete(question())


async def test_where_code_goes_is_kept_before_it_goes_even_if_nothing_comes_back(
    tmp_path: Path,
) -> None:
    store = DirStore(tmp_path)
    meter = await Meter.open(store, 9)
    away = Placed(("api.example.org",), ModelUnavailable("down"))
    with pytest.raises(ModelUnavailable):
        await MeteredModel(away, meter).complete(question())
    assert (await Meter.open(store, 9)).ledger.sent_to == ("api.example.org",)
    await MeteredModel(Placed(("10.0.0.5",)), meter).complete(question())
    kept = (await Meter.open(store, 9)).ledger
    assert (kept.sent_to, len(kept.accounts)) == (("api.example.org", "10.0.0.5"), 1)


async def test_of_several_calls_at_once_none_is_sent_before_that_is_kept(tmp_path: Path) -> None:
    away, store = Placed(("api.example.org",)), WaitingStore(tmp_path)
    metered = MeteredModel(away, await Meter.open(store, 9))
    asked = (metered.complete(question(f"testing/{n}")) for n in range(3))
    calls = asyncio.create_task(gather_all(asked))
    await store.asked.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert away.asked == []
    store.may_save.set()
    await calls
    assert sorted(away.asked) == ["testing/0", "testing/1", "testing/2"]


async def test_who_asks_after_one_that_was_cancelled_while_that_was_kept_keeps_it(
    tmp_path: Path,
) -> None:
    store = WaitingStore(tmp_path)
    meter = await Meter.open(store, 9)
    metered = MeteredModel(Placed(("api.example.org",)), meter)
    gone = asyncio.create_task(metered.complete(question()))
    await store.asked.wait()
    gone.cancel()
    await asyncio.wait([gone])
    store.may_save.set()
    away = Placed(("api.example.org",), ModelUnavailable("down"))
    with pytest.raises(ModelUnavailable):
        await MeteredModel(away, meter).complete(question())
    assert (await Meter.open(DirStore(tmp_path), 9)).ledger.sent_to == ("api.example.org",)


class WaitingStore(DirStore):
    """Saves when it may."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked, self.may_save = asyncio.Event(), asyncio.Event()

    async def save(self, key: str, value: BaseModel) -> None:
        self.asked.set()
        await self.may_save.wait()
        await super().save(key, value)


async def test_what_nobody_noted_stays_unknown(tmp_path: Path) -> None:
    meter = await Meter.open(DirStore(tmp_path), 9)
    await MeteredModel(Scripted(), meter).complete(question())
    assert meter.ledger.sent_to == (UNKNOWN_HOST,)


class Placed(Scripted):
    """A scripted model on some hosts."""

    def __init__(self, hosts: tuple[str, ...], *outcomes: str | Exception) -> None:
        super().__init__(*outcomes)
        self.hosts = hosts

    @property
    def profile(self) -> ModelProfile:
        return replace(PROFILE, sent_to=self.hosts)


class BusyModel(Model):
    """Serves `capacity` calls at once, each in a few turns of the loop, and refuses the others."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.running = self.most = self.refused = 0

    @property
    def profile(self) -> ModelProfile:
        return PROFILE

    async def complete(self, request: ModelRequest) -> Reply:
        if self.running >= self.capacity:
            self.refused += 1
            raise ModelUnavailable("busy")
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(5):
            await asyncio.sleep(0)
        self.running -= 1
        return Reply(text="x", usage=Usage(), model="m")


async def asked(model: ThrottledModel, count: int) -> list[Reply]:
    return await gather_all(
        model.complete(ModelRequest("", (), call="relevance")) for _ in range(count)
    )


async def test_a_server_that_keeps_up_is_filled() -> None:
    server, window = BusyModel(100), ConcurrencyWindow(32)
    assert len(await asked(ThrottledModel(server, window, waits=(0,) * 3), 400)) == 400
    assert server.most == 32
    assert server.refused == 0


async def test_an_overloaded_server_gets_less_and_no_call_is_lost() -> None:
    server, window = BusyModel(6), ConcurrencyWindow(64)
    assert len(await asked(ThrottledModel(server, window, waits=(0,) * 3), 600)) == 600
    assert server.most == 6
    assert window.size < 13
    assert server.refused < 200


async def test_a_server_that_serves_nobody_is_away() -> None:
    server, window = BusyModel(0), ConcurrencyWindow(8)
    with pytest.raises(ModelUnavailable):
        await asked(ThrottledModel(server, window, waits=(0, 0)), 20)
    assert window.size == 1


async def test_the_window_never_leaves_its_bounds() -> None:
    window = ConcurrencyWindow(3)
    assert window.size == 3
    async with window.slot() as number:
        for _ in range(9):
            window.record_success()
        assert window.size == 3
        window.record_overload(number)
        window.record_overload(number)
        assert window.size == 1.5


class SlowModel(Model):
    """Answers when it is let."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked: list[str] = []
        self.fails = False

    @property
    def profile(self) -> ModelProfile:
        return PROFILE

    async def complete(self, request: ModelRequest) -> Reply:
        self.asked.append(request.call)
        await self.go.wait()
        if self.fails and len(self.asked) == 1:
            raise ModelUnavailable("away")
        return Reply(text="x", usage=Usage(), model="m")


@pytest.mark.parametrize("fails", [False, True])
async def test_the_first_question_is_done_before_the_rest_are_asked(fails: bool) -> None:
    model = SlowModel()
    model.fails = fails
    started = CacheWarmup(model)
    calls = [
        asyncio.create_task(started.complete(ModelRequest("", (), call=f"editing/{n}")))
        for n in range(3)
    ]
    for _ in range(10):
        await asyncio.sleep(0)
    assert model.asked == ["editing/0"]
    model.go.set()
    results = [await asyncio.wait({call}) for call in calls]
    assert len(results) == 3
    assert sorted(model.asked) == ["editing/0", "editing/1", "editing/2"]
    assert isinstance(calls[0].exception(), ModelUnavailable) is fails
    assert calls[2].result().text == "x"


async def test_every_call_is_billable(tmp_path: Path) -> None:
    entered: list[str] = []

    @asynccontextmanager
    async def billable() -> AsyncGenerator[None]:
        entered.append("call")
        yield

    meter = await Meter.open(DirStore(tmp_path), 9, billable=billable)
    await MeteredModel(Scripted(), meter).complete(question())
    assert entered == ["call"]
