"""The strategy `search` under ceilings, and with each kind of machine that writes edits."""

from typing import Any

import pytest

from pipeline.data.code_places import Located, SearchRecord
from pipeline.data.types import Issue, Selection
from pipeline.localisation.process_reward import NOT_SCORED, ProcessReward, StepScore
from pipeline.models.base import ModelProfile, Price
from pipeline.run_errors import BudgetSpent
from pipeline.store import DirStore
from pipeline.workflows.outcome import load_context
from sandbox.frozen import replace
from tests.support.data.solver_shop import APPROVE, GOOD_EDIT, ISSUE, Shop, simple
from tests.support.fakes import Answer, ScriptedModel

SPENT = BudgetSpent(1.0, 1.0)
CUT = "The search was cut short: The limit for one run was reached: $1.00 of $1.00 is spent."
FILES = "<files>\nshop/till.py: it adds\n</files>"
PLACES = "<places>\nshop/till.py:3-4: here\n</places>"


class Judge:
    """Scores 0.9, but for the calls that it was told to leave unpaid."""

    def __init__(self, *unpaid: int) -> None:
        self.unpaid, self.calls = unpaid, 0

    async def score(self, issue: Issue, found: Located) -> StepScore:
        del issue, found
        self.calls += 1
        if self.calls in self.unpaid:
            raise SPENT
        return StepScore(probability=0.9)


async def search(
    shop: Shop, model: ScriptedModel, prm: ProcessReward | None = None, **options: Any
) -> SearchRecord:
    """What the search of a run found; a second call goes on where the first one stopped."""
    (shop.folder / "store/outcome.json").unlink(missing_ok=True)
    solver = shop.solver(model, prm=prm, strategy="search", **options)
    result = await solver.solve(ISSUE)
    assert isinstance(result, Selection), result
    found = result.evidence.context.search
    assert found is not None
    return found


def answers(*, files: Answer = FILES, places: Answer = PLACES) -> dict[str, list[Answer]]:
    return {
        **simple(GOOD_EDIT, APPROVE),
        "understanding/0": ["<bash>\nls\n</bash>", files],
        "localisation/0": [places],
    }


@pytest.mark.parametrize(
    ("first", "named"), [({"files": SPENT}, []), ({"places": SPENT}, ["shop/till.py"])]
)
async def test_a_search_that_a_ceiling_cut_short_says_so_and_goes_on_under_a_higher_one(
    shop: Shop, first: dict[str, Answer], named: list[str]
) -> None:
    cut = await search(shop, ScriptedModel(answers(**first)))
    assert cut.notes[0] == CUT
    assert [file.path for found in cut.located for file in found.files] == named
    assert not any(found.places for found in cut.located)
    context = await load_context(DirStore(shop.folder / "store"))
    assert context is not None
    assert context.search == cut, "it is shown"
    model = ScriptedModel(answers())
    whole = await search(shop, model)
    assert whole.notes == ()
    assert [place.first for found in whole.located for place in found.places] == [3]
    assert ("understanding/0", 0) not in model.asked, "what was paid is not asked again"


async def test_a_reward_model_that_cannot_be_paid_is_left_out_until_it_can(shop: Shop) -> None:
    unpaid = await search(shop, ScriptedModel(answers()), Judge(1))
    assert unpaid.notes == (CUT, NOT_SCORED)
    (found,) = unpaid.located
    assert (found.files_score, found.places_score) == (None, None)
    paid = await search(shop, ScriptedModel(answers()), Judge())
    assert paid.notes == ()
    assert [(one.files_score, one.places_score) for one in paid.located] == [(0.9, 0.9)]


class Dear(ScriptedModel):
    """Each reply costs half a dollar."""

    @property
    def profile(self) -> ModelProfile:
        return replace(super().profile, price=Price(output=100_000), max_output=5)


async def test_a_conversation_ends_when_its_part_of_the_money_is_spent(shop: Shop) -> None:
    look: list[Answer] = ["<bash>\nls\n</bash>"]
    model = Dear({**answers(), "understanding/0": look})
    # A quarter of 12 dollars is for the two conversations of the search: 1.50 for each.
    found = await search(shop, model, dollars=12.0)
    assert sum(call == "understanding/0" for call, _ in model.asked) == 3
    assert found.located == ()


async def test_an_exploring_machine_starts_from_what_the_search_found(shop: Shop) -> None:
    explored = {"exploring/0": [GOOD_EDIT, "<submit/>"], **answers()}
    del explored["editing/0"]
    model = ScriptedModel(explored)
    await search(shop, model, generators=[{"machine": "explore"}])
    told = "\n".join(message.text for message in model.conversations["exploring/0"])
    assert "shop/till.py:3-4: here" in told
