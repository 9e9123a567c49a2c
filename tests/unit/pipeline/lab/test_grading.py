"""Verdicts of the benchmark's tests, and the edits that are executed."""

import json
from pathlib import Path

import pytest

from pipeline.lab.dataset import BadData, Dataset, Instance, normalise_name, read_rows
from pipeline.lab.grading import (
    ExecutedEdit,
    GradedInstance,
    Grader,
    InstanceGrade,
    build_grade_report,
    draw_edits,
    drop_files,
)
from pipeline.store import DirStore
from sandbox.frozen import replace
from tests.benchmarks.fitting.fit_ratios import read_executions
from tests.support.data.diffs import diff_of
from tests.support.data.evaluation import edit
from tests.support.data.solver_shop import Shop, open_shop

SOURCE = "def count(prices):\n    return 7\n"
TESTS = "from till import count\n\ndef test_kept():\n    assert count\n"
FILES = {"till.py": SOURCE, "tests/test_till.py": TESTS, "conftest.py": ""}
GOLD = diff_of(SOURCE, SOURCE.replace("7", "len(prices)"), "till.py")
TEST_PATCH = diff_of(
    TESTS, f"{TESTS}\ndef test_fixed():\n    assert count([1]) == 1\n", "tests/test_till.py"
)
CHEAT = diff_of(TESTS, "def test_kept():\n    assert 1\n", "tests/test_till.py")
HOOK = """import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
FIXED, KEPT = "tests/test_till.py::test_fixed", "tests/test_till.py::test_kept"


def an_instance(**fields: object) -> GradedInstance:
    row = {
        "instance_id": "a__b-1",
        "repo": "a/b",
        "base_commit": "0" * 40,
        "patch": GOLD,
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": json.dumps([FIXED]),
        "PASS_TO_PASS": [KEPT],
    }
    return GradedInstance.model_validate(row | fields)


async def grade(folder: Path, diff: str, **fields: object) -> InstanceGrade:
    shop: Shop = await open_shop(folder, FILES)
    store = DirStore(folder / "store")
    return await Grader(an_instance(**fields), shop.codebase, shop.sandbox, store).grade(diff)


async def test_the_reference_resolves_and_others_do_not(tmp_path: Path) -> None:
    right = await grade(tmp_path / "right", GOLD)
    assert (right.resolved, right.cannot_tell, right.fixed, right.kept) == (True, "", 1, 1)
    assert (await grade(tmp_path / "cheat", GOLD + CHEAT)).resolved
    empty = await grade(tmp_path / "empty", "")
    assert (empty.resolved, empty.cannot_tell, empty.note) == (False, "", "The edit is empty.")
    wrong = await grade(tmp_path / "wrong", GOLD.replace("len(prices)", "8"))
    assert (wrong.resolved, wrong.cannot_tell, wrong.fixed) == (False, "", 0)
    assert FIXED in wrong.note
    forged = await grade(
        tmp_path / "forged", GOLD.replace("len(prices)", "8") + diff_of("", HOOK, "conftest.py")
    )
    assert (forged.resolved, forged.fixed, forged.kept) == (False, 1, 1)
    assert "conftest.py" in forged.note
    torn = await grade(tmp_path / "torn", GOLD.replace("return 7", "return 9"))
    assert torn.note.startswith("The edit does not apply")


async def test_an_environment_that_cannot_tell_says_why(tmp_path: Path) -> None:
    useless = GOLD.replace("len(prices)", "8")
    one = await grade(tmp_path / "one", useless, patch=useless)
    assert one.cannot_tell.startswith("Does not pass with the edit: tests/test_till.py::test_fixed")
    two = await grade(tmp_path / "two", GOLD, FAIL_TO_PASS=[KEPT])
    assert two.cannot_tell == f"Passes without any edit: {KEPT}."
    both = await grade(tmp_path / "both", GOLD, FAIL_TO_PASS=[FIXED, KEPT], PASS_TO_PASS=[])
    assert (both.resolved, both.cannot_tell, both.to_fix, both.to_keep) == (True, "", 1, 1)
    three = await grade(tmp_path / "three", GOLD, PASS_TO_PASS=[KEPT, "tests/test_till.py::gone"])
    assert three.cannot_tell.startswith("1 of 2 tests does not pass here without any edit")
    report = build_grade_report([one, await grade(tmp_path / "four", GOLD)])
    assert (report.score, report.resolved, list(report.cannot_tell)) == (
        100.0,
        ("a__b-1",),
        ["a__b-1"],
    )


NAMES = {
    "test_a (m.C)": "m.C.test_a",
    "test_a (m.C.test_a)": "m.C.test_a",
    "t.py::C::()::test_a": "t.py::C::test_a",
    "t.py::test_a[x y]": "t.py::test_a[x",
    "t.py::test_a[/tmp/a/b.txt]": "t.py::test_a[/b.txt]",
    "A title of a test": "A title of a test",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_all_versions_are_made_the_same(name: str) -> None:
    assert normalise_name(name) == (NAMES[name],)


def test_the_benchmarks_tests_take_the_place_of_an_edits_own() -> None:
    assert drop_files(GOLD + CHEAT, ["tests/test_till.py"]) == GOLD
    assert drop_files(CHEAT, ["tests/test_till.py"]) == ""


def test_instances_without_tests_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "i.jsonl"
    path.write_text(json.dumps({"instance_id": "a", "repo": "a/b", "base_commit": "1"}))
    with pytest.raises(BadData, match="line 1"):
        read_rows(path, GradedInstance)


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
