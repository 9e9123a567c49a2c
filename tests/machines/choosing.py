"""Runs with four edits, chosen by one method each."""

from collections.abc import Mapping, Sequence

from pipeline.data.options import Options
from pipeline.data.types import Issue, Selection
from pipeline.solve import Solver
from pipeline.workflows.outcome import Models
from tests.support.data.solver_shop import (
    ABSOLUTE_EDIT,
    APPROVE,
    COMMON,
    GOOD_EDIT,
    ISSUE,
    LONGER_GOOD_EDIT,
    WEAK_SCRIPT,
    Shop,
    edit,
    sample,
)
from tests.support.fakes import Answer, ScriptedModel

ABSOLUTE = "return abs(result)"
SUMMED = "return sum(prices)"
ADDED = "+        result += price"
OTHER_GOOD_EDIT = edit("        result -= price", "        result = result + price")
SAME_GOOD_EDIT = GOOD_EDIT.replace("+= price", "+= price  # Each one.")
FOUR: dict[str, list[Answer]] = {
    **COMMON,
    **sample(0, ABSOLUTE_EDIT, APPROVE),
    **sample(1, LONGER_GOOD_EDIT, APPROVE, test=WEAK_SCRIPT),
    **sample(2, GOOD_EDIT, APPROVE),
    **sample(3, SAME_GOOD_EDIT, APPROVE),
}

NO_LOOP = LONGER_GOOD_EDIT
SMALLEST = edit("        result -= price", "        result -= -price")


def alike(*edits: str) -> dict[str, list[Answer]]:
    """Samples that end alike with every script, the model's own in the choice included."""
    answers: dict[str, list[Answer]] = {**COMMON, "selecting": [WEAK_SCRIPT, "<choice>A</choice>"]}
    for number, one in enumerate(edits):
        more = {"test": WEAK_SCRIPT} if number else {}
        answers |= sample(number, one, APPROVE, **more)
    return answers


class TableReward:
    """A reward model that knows scores by what is in an edit."""

    def __init__(self, scores: Mapping[str, float] | Exception) -> None:
        self._scores = scores
        self.asked: list[str] = []
        self.summaries: list[str] = []

    async def score(self, issue: Issue, diff: str, summary: str = "") -> float:
        assert issue == ISSUE
        self.asked.append(diff)
        self.summaries.append(summary)
        if isinstance(self._scores, Exception):
            raise self._scores
        return next(score for words, score in self._scores.items() if words in diff)


async def chosen_by(
    shop: Shop,
    method: str,
    answers: Mapping[str, Sequence[Answer]] = FOUR,
    *,
    reward: TableReward | None = None,
    samples: int = 4,
    **options: object,
) -> tuple[Selection, ScriptedModel]:
    model = ScriptedModel(answers)
    result = await solver(shop, method, model, reward, samples=samples, **options).solve(ISSUE)
    assert isinstance(result, Selection), result
    assert result.evidence.method == method
    return result, model


def solver(
    shop: Shop, method: str, model: ScriptedModel, reward: TableReward | None, **options: object
) -> Solver:
    set_ = {"rankings": 1, "attempts": 4, "informed": 0, "selection": method, **options}
    return Solver(
        Models(solver=model, scout=model, orm=reward), shop.workspace(Options.model_validate(set_))
    )


def asked(model: ScriptedModel, stage: str) -> int:
    return sum(call == stage for call, _ in model.asked)
