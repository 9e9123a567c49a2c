"""What a test took decides when it runs, and whether `make test` runs it."""

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


class Hook:
    """Hears what is left out."""

    def __init__(self) -> None:
        self.hook = self
        self.left_out: list[Item] = []

    def pytest_deselected(self, items: list[Item]) -> None:
        self.left_out += items


def report(nodeid: str, seconds: float) -> pytest.TestReport:
    made: Any = pytest.TestReport(nodeid, (nodeid, 0, nodeid), {}, "passed", None, "call")
    made.duration = seconds
    return made


def durations_of(
    folder: Path,
    known: dict[str, dict[str, float]],
    *,
    store: bool = False,
    tenth: int | None = None,
) -> Durations:
    file = folder / "tests" / "durations.json"
    file.parent.mkdir()
    file.write_text(json.dumps(known), encoding="utf-8")
    return Durations(file, store=store, tenth=tenth)


def choose(durations: Durations, items: list[Item]) -> list[Item]:
    """What is left out; `items` become the others in their order."""
    hook = Hook()
    durations.pytest_collection_modifyitems(
        cast("pytest.Config", hook), cast("list[pytest.Item]", items)
    )
    return hook.left_out


def test_slow_files_come_first_and_make_test_leaves_slow_tests_out(tmp_path: Path) -> None:
    known = {
        "tests/unit/bot/test_b.py": {"test_long[x-y]": 1.5},
        "tests/e2e/worker/test_c.py": {"test_spine": 60.0, "test_other": 1.0},
    }
    new = Item("tests/unit/bot/test_a.py::test_new[1]")
    slow = Item("tests/unit/bot/test_b.py::test_long[x-y]")
    spine = Item("tests/e2e/worker/test_c.py::test_spine", "spine")
    other = Item("tests/e2e/worker/test_c.py::test_other")
    items = [new, slow, spine, other]
    assert choose(durations_of(tmp_path, known), items) == []
    assert items == [spine, other, slow, new]
    marks = [item.marks for item in (new, slow, spine, other)]
    assert marks == [{"short"}, set(), {"spine", "short"}, set()]


def test_ten_runs_with_ten_numbers_run_each_nightly_test_once(tmp_path: Path) -> None:
    path = "tests/e2e/worker/test_c.py"
    safety = "tests/safety/test_s.py"
    known = {path: {f"test_{n}": 60.0 for n in range(50)}, safety: {"test_s": 60.0}}
    ran: list[str] = []
    for tenth in range(10):
        folder = tmp_path / str(tenth)
        folder.mkdir()
        nightly = [Item(f"{path}::test_{n}") for n in range(50)]
        always = [Item(f"{path}::test_quick"), Item(f"{safety}::test_s")]
        items = [*nightly, *always]
        left_out = choose(durations_of(folder, known, tenth=tenth), items)
        assert {*left_out, *items} == {*nightly, *always}
        assert all(item in items and "nightly" not in item.marks for item in always)
        ran += [item.nodeid for item in items if item not in always]
    assert sorted(ran) == sorted(f"{path}::test_{n}" for n in range(50))


@pytest.mark.parametrize("store", [True, False])
def test_a_run_that_stores_replaces_what_it_measured(tmp_path: Path, store: bool) -> None:
    known = {
        "tests/doors/x.py": {"test_kept": 1.0, "test_it[a]": 2.0},
        "tests/doors/gone.py": {"test_gone": 1.0},
    }
    durations = durations_of(tmp_path, known, store=store)
    file = tmp_path / "tests" / "doors" / "x.py"
    file.parent.mkdir()
    file.touch()
    for case, seconds in (("a", 0.3), ("b", 0.4), ("b", 0.05)):
        durations.pytest_runtest_logreport(report(f"tests/doors/x.py::test_it[{case}]", seconds))
    durations.pytest_runtest_logreport(report("tests/doors/x.py::test_fast", 0.01))
    durations.pytest_sessionfinish()
    found = json.loads((tmp_path / "tests" / "durations.json").read_text())
    measured = {"test_kept": 1.0, "test_it[a]": 0.3, "test_it[b]": pytest.approx(0.45, abs=0.06)}
    assert found == ({"tests/doors/x.py": measured} if store else known)
