"""Several kinds of machines and models in one run."""

import pytest

from pipeline.data.options import Generator, Options
from pipeline.data.types import Selection
from pipeline.generation.diversity import assign_generators
from pipeline.solve import Solver
from pipeline.workflows.outcome import Models
from tests.support.data.solver_shop import (
    APPROVE,
    COMMON,
    GOOD_EDIT,
    GOOD_SCRIPT,
    ISSUE,
    WRONG_EDIT,
    Shop,
)
from tests.support.fakes import Answer, ScriptedModel

FIX = "<bash>\nsed -i 's/result -= price/result += price/' shop/till.py\n</bash>"
SUBMIT = "<submit/>"
MIXTURE = ({"machine": "explore"}, {"machine": "fixed", "model": "local"})


def answers(*fixed: Answer) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = {**COMMON, "selecting": ["<choice>A</choice>"]}
    for number in range(10):
        found[f"testing/{number}"] = [GOOD_SCRIPT, APPROVE]
        found[f"editing/{number}"] = list(fixed)
        found[f"exploring/{number}"] = [FIX, SUBMIT]
    return found


async def solve(
    shop: Shop, *fixed: Answer, **options: object
) -> tuple[Selection, list[str], list[str]]:
    """The selection, and the calls of either model."""
    first, second = ScriptedModel(answers(*fixed)), ScriptedModel(answers(*fixed), name="local-32b")
    solver = Solver(
        Models(solver=first, scout=first, solvers={"local": second}),
        shop.workspace(
            Options.model_validate(
                {"samples": 8, "rankings": 1, "informed": 0, "generators": MIXTURE, **options}
            )
        ),
    )
    result = await solver.solve(ISSUE)
    assert isinstance(result, Selection)
    return result, [call for call, _ in first.asked], [call for call, _ in second.asked]


async def test_the_first_wave_is_stratified_and_each_edit_names_its_machine_and_model(
    shop: Shop,
) -> None:
    result, first, second = await solve(shop, GOOD_EDIT, APPROVE)
    table = result.evidence.votes
    assert [(c.machine, c.model) for c in table.candidates] == [
        ("explore", "scripted"),
        ("fixed", "local-32b"),
    ] * 2  # all agree: no second wave
    assert {call for call in first if call.startswith("exploring/")} == {
        "exploring/0",
        "exploring/2",
    }
    assert {call for call in second if "/" in call} == {
        "testing/1", "testing/3", "editing/1", "editing/3",
    }  # fmt: skip


async def test_copies_of_one_source_are_no_agreement(shop: Shop) -> None:
    """Three explorers agree, and the only other source does not: more samples are drawn."""
    generators = ({"machine": "explore", "share": 3}, {"machine": "fixed", "model": "local"})
    result, _, _ = await solve(shop, WRONG_EDIT, APPROVE, generators=generators)
    assert len(result.evidence.votes.candidates) == 8
    alone, _, _ = await solve_alone(shop)
    assert len(alone.evidence.votes.candidates) == 4


async def solve_alone(shop: Shop) -> tuple[Selection, list[str], list[str]]:
    other = Shop(shop.codebase, shop.sandbox, shop.folder / "alone")
    return await solve(other, GOOD_EDIT, APPROVE, generators=({"machine": "explore"},))


async def test_an_explorer_works_without_a_script_of_the_testing_machine(shop: Shop) -> None:
    first = ScriptedModel(
        {**answers(), "testing/0": ["No."], "reproduction": COMMON["reproduction"]}
    )
    first.answers = {**first.answers, "exploring/0": [GOOD_SCRIPT, FIX, SUBMIT]}
    solver = shop.solver(first, generators=({"machine": "explore"},))
    result = await solver.solve(ISSUE)
    assert isinstance(result, Selection)


@pytest.mark.parametrize(
    ("shares", "drawn"),
    [
        ((1, 1), [0, 1, 0, 1, 0, 1]),
        ((3, 1), [0, 0, 1, 0, 0, 0, 1, 0]),
        ((1, 1, 1), [0, 1, 2, 0, 1, 2]),
        ((0.1, 0.9), [1, 1, 1, 1, 0, 1]),
    ],
)
def test_every_prefix_is_as_near_to_the_shares_as_possible(
    shares: tuple[float, ...], drawn: list[int]
) -> None:
    generators = [Generator(model=str(n), share=share) for n, share in enumerate(shares)]
    found = [int(str(g.model)) for g in assign_generators(generators, len(drawn))]
    assert found == drawn
    for count in range(1, len(drawn) + 1):
        for n, share in enumerate(shares):
            assert abs(found[:count].count(n) - share / sum(shares) * count) < 1


async def test_two_models_may_answer_in_one_sample(shop: Shop) -> None:
    both = [{"machine": "fixed", "model": ["", "local"]}]
    _, first, second = await solve(shop, GOOD_EDIT, APPROVE, generators=both, samples=4)
    asked = [
        {call for call in calls if call.startswith(("testing/", "editing/"))}
        for calls in (first, second)
    ]
    assert asked[0] & asked[1], "one conversation with replies of both"
    every = {f"{kind}/{n}" for kind in ("testing", "editing") for n in range(4)}
    assert asked[0] | asked[1] == every
