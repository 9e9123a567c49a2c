"""What is paid for once: how long prompts are kept, and how they are shared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pipeline.data.options import Options
from pipeline.data.types import Selection
from pipeline.models.base import ModelRequest, Price, cache_lifetime
from pipeline.models.factory import ModelOptions, build_model, profile_of
from pipeline.models.spec import ModelSpec, price_table
from tests.benchmarks.pipeline.paper_run import replay
from tests.contracts.models.clients import serving, user

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
