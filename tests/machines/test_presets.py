"""Both papers' methods as published: what the service receives in a whole run."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from capuchin_demo.recorded.recording import ReceivedRequest
from pipeline.data.options import Options
from pipeline.data.presets import apply_preset, read_presets
from pipeline.data.types import Candidate, Patch, Selection, TestScript
from pipeline.selection.voting import vote
from tests.machines.asked import EDITS, received
from tests.support.data.diffs import diff_of
from tests.support.data.solver_shop import (
    APPROVE,
    BREAKING_EDIT,
    COMMON,
    FILES,
    GOOD_EDIT,
    ISSUE,
    PASSING_SCRIPT,
    Shop,
    edit,
    open_shop,
    sample,
)
from tests.support.fakes import ScriptedModel


def preset(strategy: str, **explicit: object) -> dict[str, Any]:
    options = Options.model_validate({"strategy": strategy, **explicit})
    return apply_preset(options, explicit).model_dump()


@pytest.mark.parametrize("name", sorted(read_presets()))
def test_every_value_of_a_preset_is_an_option_that_differs_or_is_named_by_the_paper(
    name: str,
) -> None:
    options = preset(name)
    for option, value in read_presets()[name].items():
        assert Options.model_validate({option: value}).model_dump()[option] == options[option]


def test_what_is_set_beside_the_strategy_wins_and_the_rest_is_the_papers() -> None:
    options = preset("codemonkeys", samples=3, temperature=0.6)
    assert (options["samples"], options["temperature"]) == (3, 0.6)
    assert (options["rankings"], options["selection"], options["gate"]) == (3, "machine", False)
    with pytest.raises(ValidationError):
        Options.model_validate({"strategy": "paper"})


async def test_codemonkeys_asks_as_table_4_says(shop: Shop) -> None:
    asked = await received(shop, "openai", EDITS, **preset("codemonkeys", samples=3))
    calls = {call for call in asked if "/" in call}
    rankings = {call for call in calls if call.startswith("ranking/")}
    assert rankings == {"ranking/0", "ranking/1", "ranking/2"}
    assert {f"editing/{number}" for number in range(3)} <= calls, "all are drawn"
    assert not {call.partition("/")[0] for call in asked} & {"approaches", "exploring"}
    for call in calls:
        stage = call.partition("/")[0]
        warm = 0.5 if stage in ("testing", "editing") else 0.0
        assert {request.temperature for request in asked[call]} <= {warm, None}, call
    greedy = {request.temperature for request in (*asked["selecting"], *asked["ranking/0"])}
    assert greedy == {0.0}
    for number in range(3):
        for stage in ("testing", "editing"):
            first, *later = asked[f"{stage}/{number}"]
            assert later, "it approves what it saw run"
            assert "<approve/>" not in first.last_user_message
            assert "no_issue" not in first.last_user_message
            assert "Others have tried" not in first.last_user_message
            assert "<approve/>" in later[0].last_user_message


def bare(asked: dict[str, list[ReceivedRequest]]) -> bool:
    """Whether no request tells more than the papers' do."""
    said = [one.last_user_message for requests in asked.values() for one in requests]
    first = asked["editing/0"][0].messages[0].text
    return not any("me too" in text for text in said) and "test file nearest" not in first


async def test_a_preset_leaves_out_what_was_added_to_the_method(shop: Shop) -> None:
    edits = [edit("        result -= price", "        result += (price"), *EDITS]
    few = {"adaptive": False, "finalists": 2, "selection": "machine", "repeat_tests": 0}
    asked = await received(shop, "openai", edits, **preset("codemonkeys", samples=4, finalists=2))
    assert bare(asked)
    paths = {m for one in asked["relevance"] for m in re.findall(r'path="([^"]+)"', str(one))}
    assert paths == {"shop/till.py", "shop/names.py"}
    assert "SyntaxError" in asked["editing/0"][1].last_user_message, "it ran"
    told = asked["selecting"][0].last_user_message
    assert "Other edits were written" not in told
    shop.folder /= "default"
    asked = await received(shop, "openai", edits, **few)
    assert not bare(asked)
    assert "no longer valid" in asked["editing/0"][1].last_user_message
    assert 'path="tests/test_till.py"' in str(asked["relevance"])
    assert "Other edits were written" in asked["selecting"][0].last_user_message


async def test_equal_tests_vote_as_often_as_they_are(shop: Shop) -> None:
    test = TestScript(text="import sys\nsys.exit(2)\n")
    written = [
        Candidate(sample=n, patch=Patch(diff=diff_of("a\n", f"{n}\n", "new.py")), test=test)
        for n in range(2)
    ]
    for without, columns in (((), 1), (("equal tests",), 2)):
        options = Options.model_validate({"without": without})
        table = await vote(written, shop.workspace(options))
        assert len(table.tests) == len(table.base) == columns


async def test_the_default_asks_otherwise(shop: Shop) -> None:
    asked = await received(shop, "openai", EDITS)
    assert "<approve/>" in asked["editing/0"][0].last_user_message
    assert "no_issue" in asked["testing/0"][0].last_user_message
    assert "approaches" in asked


@pytest.mark.parametrize(
    ("edit", "script"), [(GOOD_EDIT, PASSING_SCRIPT), (BREAKING_EDIT, None)], ids=["script", "edit"]
)
async def test_without_a_gate_the_selected_edit_is_proposed_all_the_same(
    shop: Shop, edit: str, script: str | None
) -> None:
    own = {"test": script} if script else {}
    answers = {**COMMON, **sample(0, edit, APPROVE, APPROVE, APPROVE, **own)}
    set_ = preset("codemonkeys", samples=1, attempts=4, rankings=1)
    result = await shop.solver(ScriptedModel(answers), **set_).solve(ISSUE)
    assert isinstance(result, Selection), result
    assert "shop/till.py" in result.candidate.patch.diff


@pytest.mark.parametrize(
    ("sampling", "fits", "rankings"), [(True, False, 1), (False, True, 1), (False, False, 3)]
)
async def test_answers_that_differ_are_asked_three_times_for_a_ranking(
    shop: Shop, tmp_path: Path, sampling: bool, fits: bool, rankings: int
) -> None:
    if not fits:
        large = "def total_of_all():\n    return 0\n\n\n" * 300
        shop = await open_shop(tmp_path / "large", {**FILES, "shop/large.py": large})
    kind = "openai" if sampling else "anthropic"
    asked = await received(shop, kind, EDITS, rankings=None, context_tokens=1000)
    assert sum(call.startswith("ranking/") for call in asked) == rankings
