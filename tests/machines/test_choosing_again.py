"""A script that reaches the changed lines from elsewhere can overturn the choice."""

import dataclasses
import re

import pytest

from bot.comments.evidence_details import render_further
from tests.machines.choosing import NO_LOOP, OTHER_GOOD_EDIT, SMALLEST, alike, asked, chosen_by
from tests.support.data.solver_shop import APPROVE, TEST_FILE, Shop, edit
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
ELSEWHERE: str = TEXTS["ELSEWHERE"]
BREAKS = """
<script>
import sys
from shop.till import total

sys.exit(0 if total([3, 4]) <= 0 else 2)
</script>
"""
FAILS_WITH_ALL = "\n<script>\nimport sys\n\nprint('never')\nsys.exit(2)\n</script>\n"


async def test_an_edit_that_alone_fails_elsewhere_gives_way(shop: Shop) -> None:
    answers = alike(NO_LOOP, OTHER_GOOD_EDIT, SMALLEST)
    answers["reproduction"] = [TEST_FILE + ELSEWHERE, TEST_FILE]
    chosen, model = await chosen_by(shop, "evidence", answers, samples=3)
    assert "-= -price" not in chosen.candidate.patch.diff
    proof = chosen.evidence
    assert [len(one.runs) for one in proof.further] == [3]
    assert sum(run.passed for run in proof.further[0].runs) == 2
    assert any("from elsewhere" in note for note in proof.notes)
    assert "2 different edits behave alike" in proof.why
    assert asked(model, "reproduction") == 2
    told = model.conversations["reproduction"][0].text
    assert "class Discounted" in told  # who describes the edit sees what decided
    # A script is asked for that tells the edit from the one that behaves alike.
    shown = re.findall(r"<diff>\n(.*?)</diff>", told, re.DOTALL)
    assert [len(shown), len(set(shown))] == [2, 2]


async def test_the_smallest_stays_where_the_script_passes_with_it(shop: Shop) -> None:
    answers = alike(NO_LOOP, OTHER_GOOD_EDIT, SMALLEST)
    answers["reproduction"] = [TEST_FILE + ELSEWHERE.replace("[Discounted()]", "[1]")]
    chosen, _ = await chosen_by(shop, "evidence", answers, samples=3)
    assert "-= -price" in chosen.candidate.patch.diff
    (told,) = chosen.evidence.further
    assert all(run.passed for run in (told.base, *told.runs))
    assert any(
        "from elsewhere passes on the original code and passes with edit" in note
        for note in chosen.evidence.notes
    )


async def test_a_script_that_no_edit_passes_is_told_and_changes_nothing(shop: Shop) -> None:
    answers = alike(NO_LOOP, OTHER_GOOD_EDIT, SMALLEST)
    answers["reproduction"] = [TEST_FILE + FAILS_WITH_ALL]
    chosen, _ = await chosen_by(shop, "evidence", answers, samples=3)
    assert "-= -price" in chosen.candidate.patch.diff
    proof = chosen.evidence
    assert any("from elsewhere" in note and "original code" in note for note in proof.notes)
    (told,) = proof.further
    assert [run.exit_code for run in (told.base, *told.runs)] == [2, 2, 2, 2]
    body = render_further(proof.further, proof.votes, proof.order, 4000)
    assert "to reach the changed lines from elsewhere: " in body
    assert "never" in body.partition("With the original code it prints")[2]
    # The choice is explained once, by what was known when it was made.
    assert proof.why.count("A model compared") == 1
    assert "no further script told them apart" in proof.why


REMAINS: str = TEXTS["REMAINS"]
MENDS = edit(
    "    for price in prices:\n        result -= price",
    "    for price in prices or ():\n        result += price",
)


@pytest.mark.parametrize("is_asked", [True, False])
async def test_a_case_of_the_issue_that_no_edit_mends_is_given_to_one_more_sample(
    shop: Shop, is_asked: bool
) -> None:
    answers = alike(NO_LOOP, OTHER_GOOD_EDIT, SMALLEST)
    said = TEST_FILE + REMAINS + "\n<asked/>\n" * is_asked
    answers |= {"reproduction": [said], "editing/3": [MENDS, APPROVE]}
    chosen, model = await chosen_by(shop, "evidence", answers, samples=3)
    assert asked(model, "editing/3") == 2 * is_asked
    assert ("prices or ()" in chosen.candidate.patch.diff) is is_asked
    assert len(chosen.evidence.votes.candidates) == 3 + is_asked
    if is_asked:
        task = model.conversations["editing/3"][1].text
        assert "total(None)" in task
        assert "-= -price" in task  # the edit that was chosen until then
        assert chosen.candidate.informed_by
        # The script is one of those that vote, and the new edit alone passes it.
        runs = [runs[-1] for runs in chosen.evidence.votes.runs]
        assert [run.passed for run in runs] == [False, False, False, True]


async def test_a_chosen_edit_that_breaks_what_works_elsewhere_is_less_likely_to_be_right(
    shop: Shop,
) -> None:
    answers = alike(NO_LOOP, OTHER_GOOD_EDIT, SMALLEST)
    answers["reproduction"] = [TEST_FILE]
    before, _ = await chosen_by(shop, "evidence", answers, samples=3)
    answers["reproduction"] = [TEST_FILE + BREAKS]
    other = dataclasses.replace(shop, folder=shop.folder / "other")
    after, _ = await chosen_by(other, "evidence", answers, samples=3)
    assert after.candidate == before.candidate
    assert after.confidence < before.confidence
    assert any("passes on the original code" in note for note in after.evidence.notes)
