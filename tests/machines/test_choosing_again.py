"""A script that reaches the changed lines from elsewhere can overturn the choice."""

from __future__ import annotations

from tests.machines.choosing import (
    NO_LOOP,
    OTHER_GOOD_EDIT,
    SMALLEST,
    alike,
    asked,
    chosen_by,
)
from tests.support.data.solver_shop import TEST_FILE, Shop

ELSEWHERE = """
<script>
import sys
from shop.till import total


class Discounted:
    def __radd__(self, other):
        return other + 1


try:
    print(total([Discounted()]))
except TypeError as error:
    print(error)
    sys.exit(2)
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
    assert asked(model, "reproduction") == 2
    told = model.conversations["reproduction"][0].text
    assert "class Discounted" in told  # who describes the edit sees what decided


async def test_the_smallest_stays_where_the_script_passes_with_it(shop: Shop) -> None:
    answers = alike(NO_LOOP, OTHER_GOOD_EDIT, SMALLEST)
    answers["reproduction"] = [TEST_FILE + ELSEWHERE.replace("[Discounted()]", "[1]")]
    chosen, _ = await chosen_by(shop, "evidence", answers, samples=3)
    assert "-= -price" in chosen.candidate.patch.diff
    assert chosen.evidence.further == ()


async def test_a_script_that_no_edit_passes_is_told_and_changes_nothing(shop: Shop) -> None:
    answers = alike(NO_LOOP, OTHER_GOOD_EDIT, SMALLEST)
    answers["reproduction"] = [TEST_FILE + FAILS_WITH_ALL]
    chosen, _ = await chosen_by(shop, "evidence", answers, samples=3)
    assert "-= -price" in chosen.candidate.patch.diff
    assert any("from elsewhere" in note for note in chosen.evidence.notes)
