"""Runs of the repository's tests whose time ended before they did."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from pipeline.data.options import Options
from pipeline.data.suite_reports import CutShort, SuiteReport, SuiteRun
from pipeline.edits.patches import create_patch
from pipeline.generation.editing import describe_near_tests
from pipeline.languages.test_command import TestCommand
from pipeline.reasons import describe_cut
from pipeline.regression.command import find_commands
from pipeline.regression.compare import ControlTests, compare_runs, keep_measured, list_quick_files
from pipeline.regression.near_tests import NearbyTests
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.store import DirStore
from sandbox.base import Sandbox
from sandbox.frozen import replace
from sandbox.program import Ending, Execution
from tests.support.data.repositories import make_codebase
from tests.support.data.solver_shop import FILES, open_shop
from tests.support.fakes import asked_for
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
SLOWER: str = TEXTS["SLOWER"]
TESTS: str = TEXTS["TESTS"]
WHOLE = Execution(exit_code=0, output="", seconds=9)
CUT = Execution(exit_code=None, output="", seconds=9, ending=Ending.TIMEOUT, limit="processor time")
BASE = TestRun(
    suite=SuiteRun(execution=WHOLE, passed=("a", "b", "c"), failed=()),
    seconds={"a": 0.1, "b": 0.1, "c": 2},
    start=0.5,
)


def cut_run(*begun: str, seconds: float = 9, **unfinished: float) -> TestRun:
    passed = tuple(name for name in begun if name not in unfinished)
    execution = replace(CUT, seconds=seconds)
    cut = CutShort(ran=len(passed), selected=3)
    return TestRun(
        suite=SuiteRun(execution=execution, passed=passed, failed=(), cut=cut),
        files=dict.fromkeys(begun, "t.py"),
        unfinished=unfinished,
    )


class Reporting(TestRunner):
    """One with which the edit alone decides what is reported."""

    async def run_changed(self, diffs: Sequence[str], paths: Sequence[str]) -> TestRun:
        assert paths == ("till_test.go",)
        assert 't.Error("' in diffs[-1]
        passes = len(diffs) == 2
        suite = SuiteRun(execution=WHOLE, passed=("a",) * passes, failed=("a",) * (not passes))
        return TestRun(suite=suite)


async def test_an_edit_with_which_a_test_passes_that_is_made_to_fail_is_forged(
    tmp_path: Path,
) -> None:
    test = 'package till\n\nimport "testing"\n\nfunc TestA(t *testing.T) {\n}\n'
    files = {"go.mod": "module till\n", "till.go": "package till\n", "till_test.go": test}
    codebase = await make_codebase(tmp_path / "repo.git", files)
    (command,) = await find_commands(codebase)
    sandbox, store = cast(Sandbox, None), DirStore(tmp_path / "store")
    runner = Reporting(command, sandbox=sandbox, store=store, seconds=9)
    controls = ControlTests(runner, codebase, BASE)
    edit = (await create_patch(codebase, {"till.go": b"package till\n\nvar a = 1\n"})).diff
    assert await controls.are_forged(edit, BASE.suite.passed)
    own = (await create_patch(codebase, {"till_test.go": f"{test}// more\n".encode()})).diff
    assert not await controls.are_forged(own, BASE.suite.passed)
    slow = replace(BASE, suite=replace(BASE.suite, execution=replace(WHOLE, seconds=90)))
    assert not await ControlTests(runner, codebase, slow).are_forged(edit, BASE.suite.passed)


class Made(TestRunner):
    """`make check` where an edit rewrites the Makefile to print what it likes."""

    builds = True

    async def run(self, diff: str, *_: object, **__: object) -> TestRun:  # pyright: ignore[reportIncompatibleMethodOverride]
        forged, breaks = "+\techo ok" in diff, "- 1" in diff
        passed = ("a", "b") if forged or not breaks else ("a",)
        failed = tuple({"a", "b"} - {*passed})
        if not forged and not self.builds:
            passed, failed = (), ("a", "b")
        return TestRun(suite=SuiteRun(execution=WHOLE, passed=passed, failed=failed))


@pytest.mark.parametrize(
    ("change", "makefile", "builds", "forged"),
    [
        ("- 1", "check:\n\techo ok\n", True, True),
        ("+ 1", "check:\n\techo ok\n", True, False),
        ("- 1", "check:\n\techo ok\n", False, None),  # it is needed to build it
        ("- 1", "", True, None),
    ],
)
async def test_where_no_test_can_be_made_to_fail_the_repositorys_own_makefile_is_the_control(
    tmp_path: Path, change: str, makefile: str, builds: bool, forged: bool | None
) -> None:
    files = {"Makefile": "check:\n\t./test\n", "half.sh": "echo $1\n"}
    codebase = await make_codebase(tmp_path / "repo.git", files)
    edit: dict[str, bytes | None] = {"half.sh": f"echo $1 {change}\n".encode()}
    edit |= {"Makefile": makefile.encode()} if makefile else {}
    command = TestCommand(argv=("make", "check"), source="detection")
    store = DirStore(tmp_path / "store")
    runner = Made(command, sandbox=cast(Sandbox, None), store=store, seconds=9)
    runner.builds = builds
    base = TestRun(suite=SuiteRun(execution=WHOLE, passed=("a", "b"), failed=()))
    diff = (await create_patch(codebase, edit)).diff
    assert await ControlTests(runner, codebase, base).are_forged(diff, ("a", "b")) is forged
    report = await compare_runs(
        runner, codebase, base, base, diff=diff, names=("a", "b"), repeats=0
    )
    assert (bool(report.broken), report.uncontrolled) == (forged is True, forged is None)


def test_only_a_test_that_ended_or_hangs_tells_something() -> None:
    names = BASE.suite.passed
    assert keep_measured(names, BASE, BASE) == names
    assert keep_measured(names, BASE, cut_run("a", "b", b=0.3)) == ("a",)
    assert keep_measured(names, BASE, cut_run("a", "b", b=12)) == ("a", "b")
    assert keep_measured(names, BASE, cut_run("a", "c", c=12)) == ("a",)  # it takes long anyway


def test_a_start_that_takes_little_longer_than_usual_breaks_no_test() -> None:
    assert keep_measured(BASE.suite.passed, BASE, cut_run(seconds=9)) == ()
    assert keep_measured(BASE.suite.passed, BASE, cut_run(seconds=60)) == BASE.suite.passed


def test_a_command_of_which_no_test_can_be_told_is_judged_by_the_time_it_takes() -> None:
    base = replace(BASE, start=0.0)  # it took 9 seconds
    assert keep_measured(("make test",), base, cut_run(seconds=60)) == ()
    assert keep_measured(("make test",), base, cut_run(seconds=95)) == ("make test",)


async def test_the_test_that_ran_when_the_time_was_over_is_not_broken_and_starts_no_rerun(
    tmp_path: Path,
) -> None:
    shop = await open_shop(tmp_path, {**FILES, "tests/test_till.py": TESTS})
    near = NearbyTests(shop.workspace(Options(nearby_seconds=4)))
    report = await near.compare(SLOWER)
    assert report is not None
    assert (report.broken, report.after.failed) == ((), ())
    assert report.after.passed == ("tests/test_till.py::test_total",)
    assert describe_cut(report) == (
        "A time limit ended the run with the edit: 1 of 3 selected tests ran."
    )
    own = [asked_for(what) for what, diffs in shop.sandbox.runs if diffs == (SLOWER,)]
    assert len(own) == 1


MIXED: str = TEXTS["MIXED"]
NEW_TEST = "    def test_new(self):\n        assert self.wanted == 1\n\n"


@pytest.mark.parametrize("path", ["tests/test_till.py", "tests/unittest_till.py"])
async def test_the_tests_that_an_edit_brings_run_also_where_time_ended_the_others(
    tmp_path: Path, path: str
) -> None:
    """pylint calls its files of tests `unittest_*.py`."""
    shop = await open_shop(tmp_path, {**FILES, path: MIXED})
    options = Options(nearby_seconds=3)
    near = NearbyTests(shop.workspace(options))
    longer = MIXED.replace("class TestOne", f"{NEW_TEST}class TestOne")
    diff = (await create_patch(shop.codebase, {path: longer.encode()})).diff
    report = await near.compare(diff)
    assert report is not None
    assert report.before.cut is not None
    assert report.broken == ()
    new = [name for name in (*report.after.passed, *report.after.failed) if "test_new" in name]
    assert new == [f"{path}::TestOne::test_new", f"{path}::TestNone::test_new"]
    told = describe_near_tests(report, diff)
    assert told.passed == (f"{path}::TestOne::test_new",)
    assert told.failed == (f"{path}::TestNone::test_new",)


def test_a_file_that_the_time_cut_short_is_no_control() -> None:
    base = replace(BASE, files={"a": "t.py", "b": "t.py", "c": "u.py"})
    assert list_quick_files(base, "abc", "") == ["t.py", "u.py"]
    cut = replace(base, unfinished={"b": 0.1})
    assert list_quick_files(cut, "abc", "") == ["u.py"]


def test_of_files_with_enough_tests_the_quickest_is_the_control() -> None:
    many, few = [f"many{n}" for n in range(90)], [f"few{n}" for n in range(19)]
    some = [f"some{n}" for n in range(20)]
    files = {name: f"{name.rstrip('0123456789')}.py" for name in (*many, *few, *some)}
    seconds = {**dict.fromkeys(many, 0.1), **dict.fromkeys(some, 0.2), **dict.fromkeys(few, 0.0)}
    base = replace(BASE, files=files, seconds=seconds)
    assert list_quick_files(base, files, "") == ["some.py", "many.py", "few.py"]
    # Where none has that many, the one with the most.
    assert list_quick_files(base, {*few, *some[:18]}, "") == ["few.py", "some.py"]


def test_how_far_both_runs_came_is_one_sentence() -> None:
    before = SuiteRun(execution=CUT, passed=(), failed=(), cut=CutShort(ran=1242, selected=2675))
    after = SuiteRun(execution=CUT, passed=(), failed=(), cut=CutShort(ran=214, selected=239))
    whole = SuiteRun(execution=WHOLE, passed=(), failed=())

    def described(before: SuiteRun, after: SuiteRun) -> str:
        return describe_cut(SuiteReport(command=(), before=before, after=after))

    assert described(before, after) == (
        "A time limit ended both runs: 1,242 of 2,675 selected tests ran without the edit; "
        "214 of 239 selected tests with it."
    )
    every = SuiteReport(command=(), before=before, after=whole, whole=1242)
    assert "2,675 tests" in describe_cut(every)
    assert "2,675 selected tests" in described(before, whole)
    skipped = replace(after, cut=CutShort(ran=267, skipped=52, selected=388))
    assert described(whole, skipped) == (
        "A time limit ended the run with the edit: 267 of 388 selected tests ran, 52 of them "
        "skipped or expected to fail."
    )
    unknown = replace(after, cut=CutShort(ran=0))
    assert described(whole, unknown) == "A time limit ended the run with the edit: no test ran."
    assert described(whole, whole) == ""
