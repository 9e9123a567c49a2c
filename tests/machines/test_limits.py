"""The limits of the settings file reach what they limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.data.types import Selection
from pipeline.regression.runner import GRACE_SECONDS
from sandbox.program import Execution, Program
from tests.support.data.solver_shop import APPROVE, FILES, GOOD_EDIT, ISSUE, Shop, open_shop, simple
from tests.support.fakes import Answer, ScriptedModel, SubprocessSandbox


class Timed(SubprocessSandbox):
    """Notes how long each script and each command may take."""

    scripts: set[float | None]
    commands: set[float | None]

    async def run(self, program: Program) -> Execution:
        (self.commands if program.script is None else self.scripts).add(program.seconds)
        return await super().run(program)


async def timed(shop: Shop, **options: float) -> Timed:
    sandbox = Timed(await shop.codebase.build_tree())
    sandbox.results = shop.sandbox.results
    sandbox.scripts, sandbox.commands = set(), set()
    shop.sandbox = sandbox
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    limits: dict[str, Any] = options
    assert isinstance(await shop.solver(model, **limits).solve(ISSUE), Selection)
    return sandbox


async def test_a_reproduction_script_may_take_its_seconds(shop: Shop) -> None:
    sandbox = await timed(shop, execution_seconds=77)
    assert sandbox.scripts == {77}


async def test_the_repositorys_tests_may_take_theirs(shop: Shop) -> None:
    sandbox = await timed(shop, suite_seconds=333, nearby_seconds=44)
    assert {333 + GRACE_SECONDS, 44 + GRACE_SECONDS} <= sandbox.commands
    assert max(s for s in sandbox.commands if s is not None) < 900


@pytest.mark.parametrize(("tokens", "whole"), [(60_000, True), (1_000, False)])
async def test_of_a_file_that_does_not_fit_into_the_context_parts_are_shown(
    tmp_path: Path, remembered: dict[tuple[object, ...], Execution], tokens: int, whole: bool
) -> None:
    large = "def total_of_all():\n    return 0\n\n\n" * 300
    shop = await open_shop(tmp_path, {**FILES, "shop/large.py": large})
    shop.sandbox.results = remembered  # the file that is added has no part in what is run
    ranking = "<ranking>\nshop/till.py\nshop/large.py\n</ranking>"
    more: dict[str, list[Answer]] = {"ranking/0": [ranking]}
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE, **more))
    solver = shop.solver(model, scout=False, context_tokens=1_000, context_cap=tokens)
    result = await solver.solve(ISSUE)
    assert isinstance(result, Selection)
    context = result.evidence.context
    (shown,) = (file for file in context.files if file.path == "shop/large.py")
    assert shown.partial is not whole
    assert sum(file.tokens for file in context.files) <= tokens


async def test_the_model_is_asked_to_keep_to_the_tokens_of_the_context(shop: Shop) -> None:
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    await shop.solver(model, scout=False, context_tokens=4_321).solve(ISSUE)
    assert "4321 tokens" in model.conversations["ranking/0"][0].text
