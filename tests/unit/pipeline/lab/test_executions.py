"""Ways of choosing on random ensembles of edits that ran."""

import pytest

from pipeline.lab.dataset import BadData, Dataset, Instance
from pipeline.lab.executions import CHOICES, evaluate_executions, render_executions
from pipeline.lab.grading import ExecutedEdit
from tests.support.data.diffs import diff_of

OLD = "def total(prices):\n    return -sum(prices)\n"
RIGHT = diff_of(OLD, OLD.replace("-sum", "sum"), "till.py")
WRONG = diff_of(OLD, OLD.replace("-sum(prices)", "abs(sum(prices))"), "till.py")
OTHER = diff_of(OLD, OLD.replace("-sum(prices)", "max(prices)"), "till.py")
MEMBERS = {"a": WRONG, "b": WRONG, "c": RIGHT, "d": OTHER, "e": ""}
DATA = Dataset(
    instances=tuple(
        Instance(instance_id=f"x__y-{n}", repo="x/y", problem_statement="total() subtracts.")
        for n in range(4)
    ),
    members=tuple(MEMBERS),
    patches={member: {f"x__y-{n}": diff for n in range(4)} for member, diff in MEMBERS.items()},
    resolved={m: frozenset(f"x__y-{n}" for n in range(4) if m == "c") for m in MEMBERS},
)


def a_row(instance: str, member: str, *, right: bool, broken: int) -> ExecutedEdit:
    return ExecutedEdit(
        instance_id=instance,
        repo="x/y",
        member=member,
        right=right,
        fixed=(right, right),
        broken=tuple(f"test_{n}" for n in range(broken)),
    )


ROWS = [
    row
    for n in range(3)
    for row in (
        a_row(f"x__y-{n}", "c", right=True, broken=0),
        a_row(f"x__y-{n}", "b", right=False, broken=2),
    )
]


def test_what_ran_finds_the_right_edit_among_more_wrong_ones_that_agree() -> None:
    report = evaluate_executions(DATA, ROWS)
    assert (report.instances, report.edits, report.oracle) == (3, 6, 100.0)
    assert report.methods.keys() == CHOICES.keys()
    assert report.methods["majority"].score == 0.0
    assert report.methods["confidence and near tests"].score == 100.0
    assert report.methods["confidence and near tests"].gap_closed == 100.0
    assert report.random == pytest.approx(100 / 3)  # a and b sent the same edit; d's did not run
    assert report.calibration["confidence and near tests"].right == 1.0
    assert evaluate_executions(DATA, ROWS) == report
    assert "| confidence and near tests | 100.0 |" in render_executions(report)


def test_executions_of_other_instances_are_refused() -> None:
    with pytest.raises(BadData, match="none of these"):
        evaluate_executions(DATA, [a_row("z", "c", right=True, broken=0)])
