"""An informed sample takes an edit that it was shown by its number, and its fault travels."""

from bot.comments.pull_request import pull_body
from pipeline.data.code_places import Context
from pipeline.data.options import Options
from pipeline.generation.diversity import Direction, EditTask, TriedEdit
from pipeline.generation.exploring import ExploringMachine, ExploringState
from pipeline.machine import drive
from pipeline.state import Phase
from tests.machines.choosing import OTHER_GOOD_EDIT, chosen_by
from tests.support.data.publishing import a_run
from tests.support.data.solver_shop import (
    ABSOLUTE_EDIT,
    APPROVE,
    COMMON,
    GOOD_EDIT,
    ISSUE,
    Shop,
    sample,
)
from tests.support.fakes import Answer, ScriptedModel

SAME = "<same>1</same>\n\n<fault>2: it is wrong for negative prices</fault>"


async def test_an_exploring_sample_takes_an_edit_by_its_number(shop: Shop) -> None:
    model = ScriptedModel({"exploring/2": ["<same>3</same>", "I ran both.\n\n" + SAME]})
    resources = shop.workspace(Options()).with_model(model)
    others = tuple(TriedEdit(sample=n, diff=f"{n}", how="") for n in (4, 5))
    task = EditTask(ISSUE, Context(files=()), 2, direction=Direction(others=others))
    machine = ExploringMachine(resources, task)
    state = await drive(machine, ExploringState, resources.store, "editing/2")
    found = state.candidate(2)
    assert found is not None
    assert (found.patch.diff, found.fault_of, state.phase) == ("4", 5, Phase.APPROVED)
    said = [message.text for message in model.conversations["exploring/2"]]
    assert "<same>2</same>" in said[1]
    assert "There is no such edit" in said[-1]


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
    # It is told with the letter of its edit, and not as a fault of the one that was chosen.
    assert "edit C found a fault in it: “it is wrong for" in pull_body(a_run(), chosen, ())
    assert "negative prices" not in model.conversations["reproduction"][0].text
