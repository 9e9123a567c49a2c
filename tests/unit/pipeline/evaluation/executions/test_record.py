from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.lab.dataset import BadData, Dataset, Instance
from pipeline.lab.grading import ExecutedEdit, draw_edits
from sandbox.frozen import replace
from tests.benchmarks.fitting.fit_ratios import read_executions
from tests.support.data.diffs import diff_of

SOURCE = "def f(a):\n    return a\n"


def edit(body: str) -> str:
    return diff_of(SOURCE, SOURCE.replace("return a", body), "m.py")


def dataset(edits: dict[str, str], right: set[str]) -> Dataset:
    return Dataset(
        instances=(Instance(instance_id="i", repo="a/b"),),
        members=tuple(edits),
        patches={name: {"i": diff} for name, diff in edits.items()},
        resolved={name: frozenset({"i"} if name in right else ()) for name in edits},
    )


def test_right_and_wrong_edits_take_turns_and_none_comes_twice() -> None:
    edits = {f"m{n}": edit(f"return a + {n}") for n in range(20)}
    edits["same"] = edit("return a + 1  # so")
    edits["nothing"] = edit("return a  # so")
    drawn = draw_edits(dataset(edits, {f"m{n}" for n in range(15)}), "i", most=3)
    assert [one.right for one in drawn] == [True, False] * 3
    assert len({one.diff for one in drawn}) == 6
    assert drawn == draw_edits(dataset(edits, {f"m{n}" for n in range(15)}), "i", most=3)
    every = draw_edits(dataset(edits, set()), "i", most=50)
    assert {one.member for one in every} == {f"m{n}" for n in range(20)}
    assert draw_edits(dataset(edits, set()), "another") == []


def test_halves_stand_for_one_script_or_two() -> None:
    row = ExecutedEdit(
        instance_id="i", repo="a/b", member="m", right=False, fixed=(True, False, True), broken=None
    )
    assert row.halves == (True, False)
    assert replace(row, fixed=(True,)).halves == (True,)


def test_files_that_hold_no_executions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "executions.jsonl"
    with pytest.raises(BadData, match="cannot be read"):
        read_executions([path])
    path.write_text("")
    with pytest.raises(BadData, match="no executions"):
        read_executions([path])
    path.write_text("{}\n")
    with pytest.raises(BadData, match="line 1"):
        read_executions([path])
