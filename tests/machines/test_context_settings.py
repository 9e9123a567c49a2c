"""What a repository's configuration says of reading, seen through a whole run."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bot.repo_config.model import RepoConfig, parse_config
from pipeline.context.tokens import ESTIMATOR, TokenCounter, open_counter
from pipeline.data.code_places import Context
from pipeline.data.options import Options
from pipeline.data.types import NoFix, Selection
from pipeline.models.spec import parse_spec
from pipeline.solve import Solver
from pipeline.store import DirStore
from pipeline.workflows.outcome import Models
from tests.support.data.solver_shop import APPROVE, FILES, GOOD_EDIT, ISSUE, Shop, open_shop, simple
from tests.support.fakes import ScriptedModel
from tests.support.tokenizer import CountingServer


def options_of(text: str, fields: Mapping[str, object]) -> Options:
    """The options of a settings file; `fields` are options that no file sets."""
    config = parse_config(text)
    assert isinstance(config, RepoConfig), config
    usual = {"samples": 1, "rankings": 1, "attempts": 4}
    return Options.model_validate({**config.options().model_dump(), **usual, **fields})


async def run(
    shop: Shop,
    config: str = "",
    *,
    scout: bool = True,
    scout_counter: TokenCounter = ESTIMATOR,
    **fields: Any,
) -> Selection | NoFix:
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    store = DirStore(shop.folder / f"store-{len(list(shop.folder.iterdir()))}")
    solver = Solver(
        Models(solver=model, scout=model if scout else None, scout_counter=scout_counter),
        shop.workspace(options_of(config, fields), store),
    )
    return await solver.solve(ISSUE)


async def context_of(shop: Shop, config: str = "", *, scout: bool = True, **fields: Any) -> Context:
    result = await run(shop, config, scout=scout, **fields)
    assert isinstance(result, Selection), result
    return result.evidence.context


def told(context: Context) -> str:
    return " ".join(context.not_read)


async def test_what_is_excluded_is_not_read_and_ends_the_run_when_it_is_all(shop: Shop) -> None:
    context = await context_of(shop, 'exclude: ["tests/**", "*.toml"]')
    assert context.scanned == 2
    # pyproject.toml and the tests; shop/__init__.py is empty.
    assert re.search(r"\b2 files\b.+excluded", told(context))
    ended = await run(shop, 'exclude: ["**"]')
    assert isinstance(ended, NoFix)
    assert ended.reason == "no relevant files"


async def test_the_prefilter_bounds_what_the_scout_reads(shop: Shop) -> None:
    every = await context_of(shop)
    assert (every.scanned, every.findings and every.findings.way) == (4, "scout")
    few = await context_of(shop, prefilter="always", prefilter_keep=1)
    assert (few.scanned, few.findings and few.findings.way) == (1, "words, then scout")
    assert [file.path for file in few.files] == ["shop/till.py"]
    assert re.search(r"\b3 files\b", told(few))
    above = await context_of(shop, prefilter_above=3, prefilter_keep=2)
    assert above.scanned == 2
    every = await context_of(shop, prefilter="never", prefilter_above=3)
    assert every.scanned == 4


async def test_the_scouts_counter_reaches_the_run(shop: Shop, tmp_path: Path) -> None:
    text = "def total_of(prices):\n    return prices\n\n\n" * 11_500
    large = await open_shop(tmp_path, {**FILES, "shop/long.py": text})
    large.sandbox.results = shop.sandbox.results
    counting = CountingServer()
    async with counting.serve() as url, open_counter(parse_spec(f"openai:m@{url}"), "") as counter:
        result = await run(large, scout_counter=counter, prefilter="always", prefilter_keep=9)
    assert isinstance(result, Selection), result
    assert text in counting.asked


async def test_the_same_keys_act_without_a_scout(shop: Shop, tmp_path: Path) -> None:
    context = await context_of(shop, 'exclude: ["tests/**"]', scout=False)
    assert context.findings
    assert (context.findings.way, context.findings.read) == ("words", 0)
    assert "tests/test_till.py" not in [*context.dropped, *(f.path for f in context.files)]
