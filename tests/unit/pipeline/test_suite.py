from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipeline.selection.suite import Suite, naming, outcome, parse
from pipeline.store import DirStore
from sandbox.base import Ending, Execution

COMMAND = ("python", "-m", "pytest", "-q", "-rA")


def report(*lines: str, passed: int) -> str:
    rows = "\n".join(lines)
    return f"..F\n==== short test summary info ====\n{rows}\n1 failed, {passed} passed in 0.1s\n"


def test_pytests_summary_is_read() -> None:
    output = "PASSED spoofed.py::by_output\n" + report(
        "PASSED t.py::a",
        "PASSED t.py::b[x - y]",
        "PASSED t.py::c[<object at 0x7f12345678>]",
        "FAILED t.py::d - AssertionError: assert 1 == 2",
        "ERROR t.py::e",
        "SKIPPED [1] t.py:3: no",
        "XFAIL t.py::f - known",
        passed=3,
    )
    assert parse(output) == (
        {"t.py::a", "t.py::b[x - y]", "t.py::c[<object at 0x>]"},
        {"t.py::d", "t.py::e"},
    )


def test_a_summary_with_names_missing_is_not_trusted() -> None:
    assert parse(report("PASSED t.py::a", passed=2)) == (set(), set())


def test_unittests_lines_are_read() -> None:
    output = (
        "test_a (tests.t.T.test_a) ... ok\n"
        "test_b (tests.t.T.test_b)\nIts first line. ... FAIL\n"
        "test_c (tests.t.T) ... skipped 'no'\n"
        "test_d (tests.t.T.test_d) ... noise ok\n"
        "test_e (tests.t.T.test_e) ... expected failure\n"
        "nope (unittest.loader._FailedTest.nope) ... ERROR\n"
        "Ran 6 tests\n"
    )
    assert parse(output) == (
        {
            "test_a (tests.t.T.test_a)",
            "test_d (tests.t.T.test_d)",
            "test_e (tests.t.T.test_e)",
        },
        {"test_b (tests.t.T.test_b)", "nope (unittest.loader._FailedTest.nope)"},
    )


def test_another_program_counts_as_one_test() -> None:
    good = Execution(exit_code=0, output="fine", seconds=1)
    bad = good.model_copy(update={"exit_code": 1})
    stuck = Execution(exit_code=None, output="", seconds=1, ending=Ending.TIMEOUT)
    assert outcome(good, ("make", "test")).passed == ("make test",)
    assert outcome(bad, ("make", "test")).failed == ("make test",)
    assert outcome(stuck, ("make", "test")).failed == ()
    assert outcome(good, COMMAND).passed == ()


NAMED: dict[str, str] = {
    "pytest -q": "pytest -q -rA",
    "python -m pytest -ra tests": "python -m pytest -ra tests -rA",
    ".venv/bin/pytest": ".venv/bin/pytest -rA",
    "uv run -- pytest -q": "uv run -- pytest -q -rA",
    "coverage run -m pytest -- tests": "coverage run -m pytest -rA -- tests",
    "python -m unittest": "python -m unittest -v",
    "python -m unittest discover -s tests": "python -m unittest discover -v -s tests",
    "make test": "make test",
    "tox -e pytest": "tox -e pytest",
    "./run pytest": "./run pytest",
}


@pytest.mark.parametrize("command", NAMED)
def test_a_runner_is_made_to_name_its_tests(command: str) -> None:
    assert naming(command.split()) == tuple(NAMED[command].split())


def test_a_runner_of_a_runner_counts_as_one_test_by_its_end() -> None:
    good = Execution(exit_code=0, output="fine", seconds=1)
    assert outcome(good, ("tox", "-e", "pytest")).passed == ("tox -e pytest",)


@dataclass
class SuiteSandbox:
    """Answers each edit's runs in turn; the last answer repeats."""

    outputs: dict[str, list[str]]
    asked: list[str] = field(default_factory=list[str])

    async def run_script(
        self, script: str, *, diffs: Sequence[str] = (), seconds: float | None = None
    ) -> Execution:
        raise AssertionError("no script is run for the suite")

    async def run_command(
        self,
        argv: Sequence[str],
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        output_bytes: int | None = None,
    ) -> Execution:
        assert output_bytes is not None
        assert output_bytes > 1_000_000
        diff = "".join(diffs)
        outputs = self.outputs[diff]
        output = outputs[min(self.asked.count(diff), len(outputs) - 1)]
        self.asked.append(diff)
        return Execution(exit_code=1, output=output, seconds=1)


def suite(sandbox: SuiteSandbox, folder: Path) -> Suite:
    return Suite(COMMAND, sandbox=sandbox, store=DirStore(folder), seconds=1)


BOTH = report("PASSED t.py::a", "PASSED t.py::b", passed=2)
ONE = report("PASSED t.py::a", "FAILED t.py::b", passed=1)


async def test_tests_that_pass_only_without_the_edit_are_broken(tmp_path: Path) -> None:
    sandbox = SuiteSandbox({"": [BOTH], "A": [ONE]})
    found = await suite(sandbox, tmp_path).compare("A")
    assert found is not None
    assert found.broken == ("t.py::b",)


async def test_tests_that_fail_anyway_are_not_the_edits_fault(tmp_path: Path) -> None:
    found = await suite(SuiteSandbox({"": [ONE], "A": [ONE]}), tmp_path).compare("A")
    assert found is not None
    assert found.broken == ()


async def test_a_flaky_test_is_not_broken(tmp_path: Path) -> None:
    sandbox = SuiteSandbox({"": [BOTH], "A": [ONE, BOTH]})
    found = await suite(sandbox, tmp_path).compare("A")
    assert found is not None
    assert found.broken == ()
    assert sandbox.asked.count("A") == 2


async def test_a_test_that_is_named_after_the_time_of_day_is_not_broken(tmp_path: Path) -> None:
    before = report("PASSED t.py::a[2026-11-21 03:12:44.1]", "PASSED t.py::b", passed=2)
    after = report("PASSED t.py::a[2026-11-21 03:12:45.9]", "PASSED t.py::b", passed=2)
    sandbox = SuiteSandbox({"": [before], "A": [after]})
    found = await suite(sandbox, tmp_path).compare("A")
    assert found is not None
    assert found.broken == ()
    assert sandbox.asked == ["", "A"]


async def test_a_test_whose_name_changes_from_run_to_run_is_not_broken(tmp_path: Path) -> None:
    runs = [report(f"PASSED t.py::a[{seed}]", "PASSED t.py::b", passed=2) for seed in range(4)]
    sandbox = SuiteSandbox({"": runs[:2], "A": runs[2:]})
    found = await suite(sandbox, tmp_path).compare("A")
    assert found is not None
    assert found.broken == ()
    assert found.before.passed == ("t.py::b",)


async def test_nothing_is_told_from_a_suite_that_does_not_run(tmp_path: Path) -> None:
    sandbox = SuiteSandbox({"": ["No module named pytest"], "A": [""]})
    assert await suite(sandbox, tmp_path).compare("A") is None


async def test_each_run_is_saved(tmp_path: Path) -> None:
    sandbox = SuiteSandbox({"": [BOTH], "A": [BOTH], "B": [BOTH]})
    await suite(sandbox, tmp_path).compare("A")
    await suite(sandbox, tmp_path).compare("B")
    await suite(sandbox, tmp_path).compare("A")
    assert sorted(sandbox.asked) == ["", "A", "B"]
