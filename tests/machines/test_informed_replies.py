"""An informed sample takes an edit that it was shown by its number, and its fault travels."""

from __future__ import annotations

from tests.machines.choosing import OTHER_GOOD_EDIT, chosen_by
from tests.support.data.solver_shop import ABSOLUTE_EDIT, APPROVE, COMMON, GOOD_EDIT, Shop, sample
from tests.support.fakes import Answer

SAME = "<same>1</same>\n\n<fault>2: it is wrong for negative prices</fault>"


async def test_a_number_takes_the_edit_and_the_fault_is_told_on(shop: Shop) -> None:
    answers: dict[str, list[Answer]] = {
        **COMMON,
        **sample(0, GOOD_EDIT, APPROVE),
        **sample(1, ABSOLUTE_EDIT, APPROVE),
        **sample(2, OTHER_GOOD_EDIT, APPROVE),
        **sample(3, SAME),
    }
    chosen, model = await chosen_by(
        shop, "voting", answers, samples=4, informed=0.3, adaptive=False
    )
    by_sample = {one.sample: one for one in chosen.evidence.votes.candidates}
    assert by_sample[3].patch == by_sample[0].patch
    assert by_sample[3].fault == "it is wrong for negative prices"
    assert by_sample[3].fault_of == 1
    assert any("negative prices" in note for note in chosen.evidence.notes)
    assert "negative prices" in model.conversations["reproduction"][0].text
