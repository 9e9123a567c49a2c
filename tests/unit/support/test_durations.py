"""What a test took decides when it runs, and whether `make test` runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.durations import Durations


class Item:
    """What the plugin needs of a collected test."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid = nodeid
        self.path = Path(nodeid.partition("::")[0])
        self.marks = set(marks)

    def add_marker(self, name: str) -> None:
        self.marks.add(name)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


def report(nodeid: str, seconds: float) -> pytest.TestReport:
    made: Any = pytest.TestReport(nodeid, (nodeid, 0, nodeid), {}, "passed", None, "call")
    made.duration = seconds
    return made


def durations_of(folder: Path, known: dict[str, dict[str, float]], *, store: bool) -> Durations:
    file = folder / "durations.json"
    file.write_text(json.dumps(known), encoding="utf-8")
    return Durations(file, store=store)


def test_slow_files_come_first_and_make_test_leaves_slow_tests_out(tmp_path: Path) -> None:
    known = {"unit/bot": {"test_long": 3.0}, "e2e/worker": {"test_spine": 60.0, "test_other": 1.0}}
    new = Item("tests/unit/bot/test_a.py::test_new[1]")
    slow = Item("tests/unit/bot/test_b.py::test_long[x-y]")
    spine = Item("tests/e2e/worker/test_c.py::test_spine", "spine")
    other = Item("tests/e2e/worker/test_c.py::test_other")
    items = [new, slow, spine, other]
    durations_of(tmp_path, known, store=False).pytest_collection_modifyitems(
        cast("list[pytest.Item]", items)
    )
    assert items == [spine, other, slow, new]
    marks = [item.marks for item in (new, slow, spine, other)]
    assert marks == [{"short"}, {"slow"}, {"spine", "slow", "short"}, set()]


@pytest.mark.parametrize("store", [True, False])
def test_a_run_that_stores_replaces_the_folders_it_measured(tmp_path: Path, store: bool) -> None:
    known = {"unit/bot": {"test_gone": 3.0}, "doors": {"test_kept": 1.0}}
    durations = durations_of(tmp_path, known, store=store)
    for case, seconds in (("a", 0.3), ("b", 0.4), ("b", 0.05)):
        durations.pytest_runtest_logreport(report(f"tests/unit/bot/x.py::test_it[{case}]", seconds))
    durations.pytest_runtest_logreport(report("tests/unit/bot/x.py::test_fast", 0.01))
    durations.pytest_sessionfinish()
    found = json.loads((tmp_path / "durations.json").read_text())
    replaced = {"unit/bot": {"test_it": pytest.approx(0.75, abs=0.06)}, "doors": {"test_kept": 1.0}}
    assert found == (replaced if store else known)
