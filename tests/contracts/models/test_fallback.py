"""Models around models, one that takes over where another fails, and what is paid for once."""

import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.options import Options
from pipeline.data.types import Issue, Selection
from pipeline.generation.scripts import TestingState
from pipeline.generation.testing import TestingMachine
from pipeline.machine import drive
from pipeline.models.base import (
    ContextTooLong,
    Model,
    ModelError,
    ModelMisconfigured,
    ModelRefused,
    ModelRequest,
    ModelRetired,
    ModelUnavailable,
    NoCredit,
    Price,
    WrongKey,
    cache_lifetime,
)
from pipeline.models.factory import ModelOptions, build_model, profile_of
from pipeline.models.metering import Meter
from pipeline.models.spec import ModelSpec, parse_spec, price_table
from pipeline.models.wrappers import (
    COOLDOWN_SECONDS,
    ConcurrencyWindow,
    FallbackModel,
    MeteredModel,
    ThrottledModel,
)
from pipeline.run_errors import BudgetSpent
from pipeline.state import Phase
from pipeline.store import DirStore
from tests.benchmarks.pipeline.paper_run import replay
from tests.contracts.models.clients import KEY, Kind, client, recording, serving, user
from tests.support.sandboxes import FailingSandbox, bare_workspace

SCRIPT = "<script>\nimport sys\nsys.exit(2)\n</script>"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Pair(NamedTuple):
    model: FallbackModel
    first: RecordedServer
    second: RecordedServer
    clock: Clock

    async def ask(self) -> str:
        return (
            await self.model.complete(ModelRequest("", (user("Hello?"),), call="testing/0"))
        ).text


@asynccontextmanager
async def pair(kinds: tuple[Kind, Kind], *answers: list[dict[str, Any]]) -> AsyncGenerator[Pair]:
    """Two real clients, each with a service of its own that gives its `answers`."""
    first, second = (RecordedServer(recording(*said), key=KEY) for said in answers)
    clock = Clock()
    async with first.serve() as one, second.serve() as two:
        clients = [
            client(kind, url, sdk_retries=0) for kind, url in zip(kinds, (one, two), strict=True)
        ]
        models = [ThrottledModel(each, ConcurrencyWindow(2), waits=(0,)) for each in clients]
        try:
            yield Pair(FallbackModel(models, clock=clock), first, second, clock)
        finally:
            for each in clients:
                await each.aclose()


BOTH: list[tuple[Kind, Kind]] = [("anthropic", "openai"), ("openai", "anthropic")]
DOWN = {
    "overloaded": ({"status": 529}, 2),
    "limiting our rate": ({"status": 429}, 2),
    "hanging up": ({"cut": "drop", "reply": "half of this"}, 2),
    "retired": ({"status": 404}, 1),
}


@pytest.mark.parametrize("kinds", BOTH)
@pytest.mark.parametrize("case", DOWN)
async def test_the_second_answers_while_the_first_is(case: str, kinds: tuple[Kind, Kind]) -> None:
    answer, asked = DOWN[case]
    async with pair(kinds, [answer], [{"reply": "yes"}]) as at:
        assert await at.ask() == "yes"
        assert await at.ask() == "yes"
    assert len(at.first.requests) == asked, "it is left alone for a while"
    assert len(at.second.requests) == 2


@pytest.mark.parametrize("kinds", BOTH)
async def test_a_conversation_moves_to_the_second_in_the_middle_and_says_so(
    kinds: tuple[Kind, Kind], tmp_path: Path
) -> None:
    first = [{"turn": 0, "reply": SCRIPT}, {"turn": 1, "status": 529}]
    second = [
        {"turn": 1, "reply": SCRIPT.replace("2", "1 + 1")},
        {"turn": 2, "reply": "<approve/>"},
    ]
    async with pair(kinds, first, second) as at:
        issue = Issue(repository="acme/shop", title="It fails", body="")
        resources = bare_workspace(FailingSandbox(), tmp_path).with_model(at.model)
        machine = TestingMachine(resources, issue, sample=0)
        state = await drive(machine, TestingState, DirStore(tmp_path), "testing/0")
    assert state.phase is Phase.APPROVED
    assert [len(asked.messages) for asked in at.second.requests] in ([4, 6], [3, 5])
    assert SCRIPT in " ".join(message.text for message in at.second.requests[0].messages)
    assert len(state.models) == 3


async def test_after_a_while_the_first_is_asked_again() -> None:
    down = {"status": 529, "times": 2, "reply": "I am back"}
    async with pair(("anthropic", "openai"), [down], [{"reply": "yes"}]) as at:
        assert await at.ask() == "yes"
        at.clock.now += COOLDOWN_SECONDS - 1
        assert await at.ask() == "yes"
        at.clock.now += 1
        assert await at.ask() == "I am back"


async def test_when_all_are_down_the_outage_is_worth_waiting_for() -> None:
    async with pair(("anthropic", "openai"), [{"status": 404}], [{"status": 503}]) as at:
        with pytest.raises(ModelUnavailable, match="openai:"):
            await at.ask()


async def test_when_all_are_retired_the_first_is_reported() -> None:
    async with pair(("anthropic", "openai"), [{"status": 404}], [{"status": 404}]) as at:
        with pytest.raises(ModelRetired, match="anthropic:"):
            await at.ask()


async def test_what_the_second_cannot_hold_waits_for_the_first() -> None:
    too_long = {"status": 400, "error": "maximum context length is 8192 tokens"}
    async with pair(("anthropic", "openai"), [{"status": 529}], [too_long]) as at:
        with pytest.raises(ModelUnavailable, match="overloaded"):
            await at.ask()


UNSHARED: list[tuple[dict[str, Any], type[ModelError]]] = [
    ({"stop": "refusal", "reply": "No."}, ModelRefused),
    ({"stop": "context", "reply": "So"}, ContextTooLong),
    ({"status": 400, "error": "prompt is too long: 9 tokens"}, ContextTooLong),
    ({"status": 400, "error": "Output blocked by content filtering policy"}, ModelRefused),
    ({"status": 400, "error": "Your credit balance is too low"}, NoCredit),
    ({"status": 401}, WrongKey),
    ({"status": 422, "error": "No."}, ModelMisconfigured),
]


@pytest.mark.parametrize(("answer", "error"), UNSHARED)
async def test_the_second_is_asked_after_what_it_may_not_share(
    answer: dict[str, Any], error: type[ModelError]
) -> None:
    async with pair(("anthropic", "openai"), [answer], [{"reply": "yes"}]) as at:
        assert await at.ask() == "yes"
        assert await at.ask() == "yes"
    skipped = issubclass(error, ModelMisconfigured)
    assert len(at.first.requests) == (1 if skipped else 2)


@pytest.mark.parametrize(("answer", "error"), UNSHARED)
async def test_the_failure_of_all_is_the_one_that_ends_least(
    answer: dict[str, Any], error: type[ModelError]
) -> None:
    async with pair(("openai", "anthropic"), [{"status": 403}], [answer]) as at:
        with pytest.raises(ModelError) as caught:
            await at.ask()
    wanted = WrongKey if issubclass(error, ModelMisconfigured) else error
    assert type(caught.value) is wanted


ANSWERS = ({"call": "testing", "status": 529, "times": 4, "reply": "x" * 40_000},)


@pytest.mark.parametrize(
    "text", ["anthropic:recorded-claude-sonnet-4-6@{}", "openai:recorded-claude-sonnet-4-6@{}/v1"]
)
async def test_a_recorded_run_is_paid_at_list_prices_under_its_own_name(
    tmp_path: Path, text: str
) -> None:
    server = RecordedServer(recording(*ANSWERS), key=KEY)
    meter = await Meter.open(DirStore(tmp_path), ceiling=0.15)
    async with server.serve() as url:
        client = build_model(parse_spec(text.format(url)), api_key=KEY)
        model: Model = ThrottledModel(
            MeteredModel(client, meter), ConcurrencyWindow(2), waits=(0, 0)
        )
        await model.complete(ModelRequest("", (user("Hi"),), call="testing/0"))
        with pytest.raises(BudgetSpent):
            await model.complete(ModelRequest("", (user("Hi"),), call="testing/1"))
        await client.aclose()
    (account,) = meter.accounts()
    assert (account.stage, account.model) == ("testing", "recorded-claude-sonnet-4-6")
    assert account.dollars == pytest.approx(0.15, abs=0.001)
    assert len(server.requests) == 5


def test_no_sdk_is_imported_before_a_client_is_built() -> None:
    code = (
        "import sys, capuchin_demo.recorded.server, pipeline.models.factory, "
        "pipeline.models.metering, pipeline.models.wrappers; "
        "sys.exit(bool({'anthropic', 'openai'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


SPEC = ModelSpec(provider="anthropic", name="claude-sonnet-4-6")


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, 300),
        ({"execution_seconds": 210}, 300),
        ({"execution_seconds": 211}, 3600),
        ({"nearby_seconds": 106}, 3600),
        ({"suite_seconds": 3600}, 300),
    ],
)
def test_the_longest_pause_between_two_questions_decides(
    options: dict[str, float], seconds: int
) -> None:
    assert cache_lifetime(Options.model_validate(options)) == seconds


def test_an_hour_has_its_own_price_in_the_table() -> None:
    short, long = profile_of(SPEC), profile_of(SPEC, ModelOptions(cache_seconds=3600))
    assert (short.price.cache_write, long.price.cache_write) == (3.75, 6)
    assert short.price.cache_read == long.price.cache_read
    prices = [facts.price for facts in price_table().models.values()]
    known = [price for price in prices if price.cache_write_hour]  # Anthropic's
    assert known
    assert all(price.cache_write_hour == 2 * price.input for price in known)


def test_a_price_of_ones_own_without_one_for_an_hour_is_not_counted_as_free() -> None:
    given = Price(input=3, cache_write=4)
    assert profile_of(SPEC, ModelOptions(price=given, cache_seconds=3600)).price.cache_write == 4


@pytest.mark.parametrize(("seconds", "mark"), [(300, {}), (3600, {"ttl": "1h"})])
async def test_every_mark_asks_for_the_life_that_was_chosen(
    seconds: int, mark: dict[str, str]
) -> None:
    async with serving("anthropic", {"reply": "Yes."}) as at:
        life = 3600 if seconds == 3600 else 300
        model = build_model(
            SPEC,
            api_key="sk-recorded-0123456789",
            base_url=at.url,
            options=ModelOptions(cache_seconds=life),
        )
        try:
            await model.complete(ModelRequest("Be brief.", (user("Hello?"),), call="testing/0"))
        finally:
            await model.aclose()
    (asked,) = at.server.requests
    assert list(asked.marks) == [{"type": "ephemeral", **mark}] * 2


async def test_of_what_a_cache_could_serve_at_least_98_percent_is_read_from_it(
    tmp_path: Path,
) -> None:
    run = await replay(tmp_path)
    assert isinstance(run.result, Selection)
    stages = Counter(asked.call.partition("/")[0] for asked in run.requests)
    assert (stages["editing"], stages["testing"], stages["selecting"]) == (80, 80, 8)
    assert run.cached / run.cacheable >= 0.98, run.lines
    assert [line.stage for line in run.lines] == [
        "Relevance",
        "Ranking",
        "Gen. tests",
        "Gen. edits",
        "Selection",
        "Reproduction",
        "Total",
    ]
    assert run.lines[-1].dollars == pytest.approx(run.dollars)
