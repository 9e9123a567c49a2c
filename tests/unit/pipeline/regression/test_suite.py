"""The repository's own tests on edits, run for real."""

import ast
import dataclasses
import sys
import time
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from pipeline.data.options import Options
from pipeline.data.progress import Doing
from pipeline.data.suite_reports import CutShort, SuiteReport, SuiteRun
from pipeline.models.wrappers import RunClock, TimedStage
from pipeline.reasons import count_near, describe_base, describe_cut, describe_failing
from pipeline.regression import counts
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.compare import CONTROL, join_near, join_reports
from pipeline.regression.counts import CountReporter
from pipeline.regression.near_tests import NearbyTests
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.regression.suite import RegressionSuite
from pipeline.store import DirStore, SharingStore, Store
from sandbox.frozen import replace
from sandbox.program import Execution
from tests.support.data.diffs import added_file, diff_of, removed_file
from tests.support.data.solver_shop import FILES, Shop, open_shop
from tests.support.fakes import asked_for
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

COUNT = FILES["tests/test_till.py"]
DIFF: str = TEXTS["DIFF"]
BREAKING = DIFF.format("7")
HARMLESS = DIFF.format("len(list(prices))")
PYTEST = ("python", "-m", "pytest", "-q")
SUITES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("suites.toml").read_text("utf-8"))


async def opened(folder: Path, tests: dict[str, str], **extra: str) -> Shop:
    source = {path: text for path, text in FILES.items() if not path.startswith("tests/")}
    return await open_shop(folder, {**source, **tests, **extra})


@pytest.fixture
async def till(tmp_path: Path) -> Shop:
    """The shop with its own tests."""
    return await opened(tmp_path, {"tests/test_till.py": COUNT})


async def runner_of(shop: Shop, *command: str, store: Store | None = None) -> TestRunner:
    found = (await find_commands(shop.codebase, command))[0]
    store = store or DirStore(shop.folder / "store")
    return TestRunner(found, sandbox=shop.sandbox, store=store, seconds=100)


def near_of(shop: Shop) -> NearbyTests:
    return NearbyTests(shop.workspace(Options(nearby_seconds=20)))


def suite_of(shop: Shop, *command: str, seconds: float = 100, near: float = 0) -> RegressionSuite:
    options = Options(test_command=command, suite_seconds=seconds, nearby_seconds=near)
    return RegressionSuite(shop.workspace(options))


async def find_broken(suite: RegressionSuite, diff: str) -> tuple[str, ...] | None:
    report = await suite.compare(diff)
    return report.broken if report else None


async def report_of(judge: RegressionSuite | NearbyTests, diff: str) -> SuiteReport:
    report = await judge.compare(diff)
    assert report is not None
    return report


async def compared(shop: Shop, diff: str, *command: str) -> SuiteReport:
    return await report_of(suite_of(shop, *command), diff)


def test_runs_side_by_side_are_counted_together_until_the_last_of_them_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counts, "REPORT_SECONDS", 0)
    told: list[Doing] = []
    reporter = CountReporter(told.append)
    chosen, whole = RequestedTests(tests=("a", "b")), RequestedTests(functions=True)
    reporter.count("", whole, 113, 1484)
    assert "without an edit: 113 of 1,484 tests" in told[-1].text
    reporter.end("", whole, 1484)
    assert ("1,484" in told[-1].text, told[-1].counted) == (True, None)
    for diff, begun in (("one", 57), ("other", 109), ("one", 62)):
        reporter.count(diff, chosen, begun, 767)
    assert [one.counted for one in told[2:]] == [
        (57, 767, "tests"), (166, 1534, "tests"), (171, 1534, "tests"),
    ]  # fmt: skip
    assert "some of" in told[-1].text
    reporter.end("other", chosen, 156)  # a limit ended it: what was expected of it does not stay
    reporter.count("one", chosen, 80, 767)
    assert told[-1].counted == (236, 923, "tests")
    assert "(1 run ended): 236 of 923" in told[-1].text, "or the count jumps for no reason"
    reporter.end("one", chosen, 767)
    assert ("923" in told[-1].text, told[-1].counted) == (True, None)
    reporter.count("", whole, 1, 0)
    assert (told[-1].counted, "1 test " in told[-1].text) == (None, True)
    for part in ("a", "b"):
        reporter.count("one", RequestedTests(tests=(part,)), 1, 5)
    assert "and with an edit: 3 tests" in told[-1].text, "two runs of one edit"


async def test_broken_tests_are_named_and_nothing_is_run_twice(till: Shop) -> None:
    assert await find_broken(suite_of(till), BREAKING) == ("tests/test_till.py::test_count",)
    runs = len(till.sandbox.runs)
    harmless, breaking = await suite_of(till).compare_all([HARMLESS, BREAKING])
    assert harmless is not None
    assert breaking is not None
    assert (harmless.broken, breaking.broken) == ((), ("tests/test_till.py::test_count",))
    assert (harmless.whole, harmless.chosen) == (2, "")
    assert len(till.sandbox.runs) == runs + 3  # and a control test without and with the edit


FORGERIES = SUITES["forgeries"]


@pytest.mark.parametrize("case", FORGERIES)
async def test_an_edit_that_forges_what_is_recorded_breaks_the_control(
    till: Shop, case: str
) -> None:
    path, text = FORGERIES[case].values()
    forged = diff_of("", text, path) if path in FILES else added_file(path, text)
    report = await compared(till, BREAKING + forged, *PYTEST)
    assert report.broken == (CONTROL,)


HIDING = SUITES["hiding"]


@pytest.mark.parametrize("case", HIDING)
async def test_a_test_that_an_edit_hides_counts_as_broken(till: Shop, case: str) -> None:
    path, text = HIDING[case].values()
    report = await compared(till, BREAKING + added_file(path, text), *PYTEST)
    assert "tests/test_till.py::test_count" in report.broken


ENDS_THE_WRAPPER = SUITES["ENDS_THE_WRAPPER"]


async def test_an_edit_that_prints_results_and_ends_the_wrapper_is_not_believed(till: Shop) -> None:
    report = await compared(till, added_file("conftest.py", ENDS_THE_WRAPPER), *PYTEST)
    assert len(report.broken) == 2
    assert report.after.passed == ()


ODD = SUITES["ODD"]


async def test_odd_names_are_kept_apart_and_printed_results_are_not_believed(
    tmp_path: Path,
) -> None:
    shop = await opened(tmp_path, {"tests/test_odd.py": ODD})
    report = await compared(shop, BREAKING, *PYTEST)
    assert report.broken == (
        "tests/test_odd.py::TestClass::test_in_class",
        "tests/test_odd.py::test_odd[a b]c[::]",
        "tests/test_odd.py::test_odd[line\\nbreak \\xe9]",
    )
    assert report.before.failed == ("tests/test_odd.py::test_failing",)


async def test_a_suite_that_crashes_half_way_with_an_edit_breaks_what_it_did_not_reach(
    tmp_path: Path,
) -> None:
    text = (
        "import os, signal\nfrom shop.till import count\n\ndef test_a():\n    pass\n\n"
        "def test_b():\n    if count([]) == 7:\n        os.kill(os.getpid(), signal.SIGSEGV)\n\n"
        "def test_c():\n    pass\n"
    )
    shop = await opened(tmp_path, {"tests/test_crash.py": text})
    report = await compared(shop, BREAKING)
    assert report.broken == ("tests/test_crash.py::test_b", "tests/test_crash.py::test_c")
    assert report.after.execution.exit_code is None


CRASHING = "import os\n\ndef test_first():\n    pass\n\ndef test_crash():\n    os._exit(3)\n"


async def test_a_suite_that_never_ends_well_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    tests = {
        "tests/test_a.py": CRASHING.replace("os._exit(3)", "os.kill(os.getpid(), 9)"),
        "tests/test_far.py": "def test_far():\n    pass\n",
        "tests/test_till.py": COUNT,
    }
    shop = await opened(tmp_path, tests)
    report = await compared(shop, BREAKING)
    assert report.before.passed == (
        "tests/test_a.py::test_first",
        "tests/test_till.py::test_count",
        "tests/test_till.py::test_total_of_nothing",
    )
    assert report.broken == ("tests/test_till.py::test_count",)


async def test_a_file_that_can_no_longer_be_collected_breaks_its_own_tests_only(
    tmp_path: Path,
) -> None:
    other = "import shop.till\nshop.till.count([]) == 7 and nowhere\n\ndef test_it():\n    pass\n"
    tests = {"tests/test_other.py": other, "tests/test_names.py": "def test_n():\n    pass\n"}
    report = await compared(await opened(tmp_path, tests), BREAKING)
    assert report.broken == ("tests/test_other.py::test_it",)
    assert "tests/test_other.py" in report.after.failed


async def test_the_test_files_that_other_edits_change_are_near(tmp_path: Path) -> None:
    near_one = "import shop.till\n\ndef test_n():\n    pass\n"
    many = {f"tests/test_near{n}.py": near_one for n in range(12)}
    far = "import pathlib\n\ndef test_far():\n    assert 'len' in pathlib.Path('{}').read_text()\n"
    shop = await opened(tmp_path, {**many, "tests/zoo/test_far.py": far.format("shop/till.py")})
    near = near_of(shop)
    report = await report_of(near, BREAKING)
    assert report.broken == ()
    near.shared = ("tests/zoo/test_far.py", "tests/none.py")
    report = await report_of(near, BREAKING)
    assert report.broken == ("tests/zoo/test_far.py::test_far",)


async def test_a_suite_that_passes_nothing_gives_no_result(tmp_path: Path) -> None:
    shop = await opened(tmp_path, {"tests/test_a.py": "def test_a():\n    assert False\n"})
    suite = suite_of(shop)
    assert await find_broken(suite, BREAKING) is None
    assert suite.problem.endswith(": 1 fail.")


async def test_a_repository_without_tests_is_told_what_to_do(tmp_path: Path) -> None:
    suite = suite_of(await opened(tmp_path, {}))
    assert await find_broken(suite, BREAKING) is None
    assert "set `test` in .github/capuchin.yml" in suite.problem


async def test_a_command_that_is_not_there_is_no_failed_test(tmp_path: Path) -> None:
    suite = suite_of(await opened(tmp_path, {}), "nowhere", "--at-all")
    assert await find_broken(suite, BREAKING) is None
    assert "`nowhere --at-all`" in suite.problem


async def test_a_command_that_takes_too_long_is_said_to(tmp_path: Path) -> None:
    suite = suite_of(await opened(tmp_path, {}), "sleep", "60", seconds=0.5)
    assert await find_broken(suite, BREAKING) is None
    assert "timeout" in suite.problem


CASE = SUITES["CASE"]


async def test_unittest_is_distinguished(tmp_path: Path) -> None:
    extra = {"tests/__init__.py": "", "pyproject.toml": ""}
    shop = await opened(tmp_path, {"tests/test_case.py": CASE}, **extra)
    report = await compared(shop, BREAKING)
    assert report.command[:3] == ("python", "-m", "unittest")
    assert report.broken == (
        "tests.test_case.CountTest.test_count",
        "tests.test_case.CountTest.test_parts",
    )
    assert report.after.passed == ("tests.test_case.CountTest.test_steady",)
    assert report.after.errors == ("tests.test_case.CountTest.test_with_an_error",)
    assert report.after.skipped == tuple(
        f"tests.test_case.CountTest.test_{name}" for name in ("skipped", "wrong_as_known")
    )
    assert (report.before.errors, report.before.skipped) == (
        report.after.errors,
        report.after.skipped,
    )


CLOCKS: str = TEXTS["CLOCKS"]


@pytest.mark.parametrize("command", [PYTEST, ("python", "-m", "unittest", "tests.test_clock")])
async def test_tests_that_replace_the_clock_take_the_time_that_they_take(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    shop = await opened(tmp_path, {"tests/__init__.py": "", "tests/test_clock.py": CLOCKS})
    run = await (await runner_of(shop, *command)).run()
    assert len(run.suite.passed) == 1
    assert 0 < sum(run.seconds.values()) < run.suite.execution.seconds


async def test_toxs_own_command_is_tried_and_left_when_it_cannot_run(tmp_path: Path) -> None:
    tox = "[testenv]\ncommands = pytest --no-such-option\n    pytest -q tests\n"
    shop = await opened(tmp_path, {"tests/test_till.py": COUNT}, **{"tox.ini": tox})
    report = await compared(shop, BREAKING)
    assert report.command == ("python", "-m", "pytest", "-q", "tests")
    assert report.broken == ("tests/test_till.py::test_count",)


async def test_a_command_in_another_language_counts_by_its_exit_code(tmp_path: Path) -> None:
    command = ("grep", "-q", "len", "shop/till.py")
    shop = await opened(tmp_path, {})
    assert (await compared(shop, BREAKING, *command)).broken == ("grep -q len shop/till.py",)
    assert (await compared(shop, HARMLESS, *command)).broken == ()


async def test_a_script_that_runs_pytest_is_distinguished_by_its_junit_file(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-m', 'pytest', '-q']))"
    )
    shop = await opened(tmp_path, {"tests/test_till.py": COUNT}, **{"run.py": script})
    report = await compared(shop, BREAKING, "python", "run.py")
    assert report.broken == ("tests.test_till::test_count",)


async def test_tests_that_run_side_by_side_are_distinguished(till: Shop) -> None:
    runner = await runner_of(till, *PYTEST, "-p", "xdist", "-n", "2")
    run = await runner.run("", RequestedTests(functions=True))
    assert run.suite.passed == (
        "tests/test_till.py::test_count",
        "tests/test_till.py::test_total_of_nothing",
    )
    assert run.files["tests/test_till.py::test_count"] == "tests/test_till.py"
    assert [run.names[n] for n in run.ran["shop/till.py:8"]] == ["tests/test_till.py::test_count"]
    one = RequestedTests(tests=("tests/test_till.py::test_count",), files=("tests/test_till.py",))
    assert (await runner.run("", one)).suite.passed == one.tests


async def test_a_test_that_does_not_keep_to_its_outcome_is_flaky_not_broken(tmp_path: Path) -> None:
    log = tmp_path / "log"
    text = (
        "import pathlib\nfrom shop.till import count\nlog = pathlib.Path({!r})\n"
        "seen = len(log.read_text()) if log.exists() else 0\n\n"
        # Runs: without the edit, then three with it, then again without it.
        "def test_later():\n    log.write_text('x' * (seen + 1))\n    assert seen < 1\n\n"
        "def test_once():\n    assert seen != 1\n\n"
        # Python's hash seed is 0 in a first run, 1 in the second.
        "def test_hash():\n    assert count([1]) == 1 or hash('sun') % 2\n\n"
        "def test_count():\n    assert count([1]) == 1\n"
    )
    shop = await opened(tmp_path, {"tests/test_flaky.py": text.format(str(log))})
    report = await compared(shop, BREAKING)
    assert report.broken == ("tests/test_flaky.py::test_count",)
    assert report.flaky == ("tests/test_flaky.py::test_later",)
    again = {f"tests/test_flaky.py::test_{n}" for n in ("once", "hash")}
    assert again <= {*report.after.passed}
    assert {*report.passed_again} == again  # the output tells another end of these


class LateClock(RunClock):
    """Too little time to run everything once more, after two runs of the tests."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log

    def seconds_left(self, stage: TimedStage) -> float:
        del stage
        late = self._log.exists() and len(self._log.read_text()) > 1
        return 0.1 if late else 1000.0


async def test_few_tests_are_checked_again_where_there_is_no_time_for_all(tmp_path: Path) -> None:
    log = tmp_path / "log"
    once = (
        "import pathlib\nlog = pathlib.Path({!r})\n"
        "seen = len(log.read_text()) if log.exists() else 0\n\n"
        "def test_once():\n    log.write_text('x' * (seen + 1))\n    assert seen != 1\n"
    )
    tests = {"tests/test_once.py": once.format(str(log)), "tests/test_till.py": COUNT}
    shop = await opened(tmp_path, tests)
    workspace = shop.workspace(Options(nearby_seconds=0))
    suite = RegressionSuite(dataclasses.replace(workspace, clock=LateClock(log)))
    assert await find_broken(suite, HARMLESS) == ()


async def test_tests_that_the_edit_removes_are_not_broken(tmp_path: Path) -> None:
    tests = {"tests/test_till.py": COUNT, "tests/test_old.py": "def test_old():\n    pass\n"}
    shop = await opened(tmp_path, tests)
    removed = removed_file("tests/test_old.py", tests["tests/test_old.py"])
    assert (await compared(shop, removed)).broken == ()


SLOW = "import time\n\n\ndef test_slow():\n"


async def test_of_a_long_suite_the_tests_that_matter_are_run(tmp_path: Path) -> None:
    tests = {"tests/test_slow.py": SLOW + "    time.sleep(600)\n", "tests/test_a.py": COUNT}
    suite = suite_of(await opened(tmp_path, tests), *PYTEST, seconds=8)
    report = await report_of(suite, BREAKING)
    assert report.broken == ("tests/test_a.py::test_count",)
    assert report.before.execution.exit_code is None


async def opened_with_long(folder: Path, far: str) -> Shop:
    """The shop, with the tests `far` and one that the time does not allow, in another file."""
    long = "def test_that_takes_long():\n    while True:\n        pass\n"
    tests = {"tests/test_far.py": f"{far}\n\n{long}", "tests/test_till.py": COUNT}
    return await opened(folder, tests)


async def test_tests_near_an_edit_that_ran_before_count_beside_the_others(tmp_path: Path) -> None:
    shop = await opened_with_long(tmp_path, "def test_quick():\n    pass\n")
    report = await report_of(suite_of(shop, *PYTEST, seconds=6, near=20), HARMLESS)
    assert report.before.passed == report.after.passed
    assert report.before.passed == (
        "tests/test_far.py::test_quick",
        "tests/test_till.py::test_count",
        "tests/test_till.py::test_total_of_nothing",
    )
    assert (report.near, report.whole) == (2, 3)
    assert report.chosen == "those in the test file nearest to the edit, and then the others"


async def test_tests_that_fail_without_an_edit_and_do_not_run_with_it_are_counted(
    tmp_path: Path,
) -> None:
    far = "def test_quick():\n    pass\n\n\ndef test_bad():\n    assert 0\n"
    shop = await opened_with_long(tmp_path, far)
    report = await report_of(suite_of(shop, *PYTEST, seconds=6, near=20), HARMLESS)
    assert (report.before.failed, report.failing) == ((), ("tests/test_far.py::test_bad",))
    assert describe_failing(report, "it") == "1 more fails without it, and was not run with it."
    joined = join_reports(report, replace(report, chosen=""))
    assert joined.chosen.endswith(", and then the others")
    assert joined.failing == report.failing


async def test_files_without_chosen_tests_are_not_even_imported(tmp_path: Path) -> None:
    tests = {"tests/test_a.py": CRASHING.replace("os._exit(3)", "os.kill(os.getpid(), 9)")}
    tests |= {"tests/test_far.py": "def test_far():\n    pass\n", "tests/test_till.py": COUNT}
    shop = await opened(tmp_path, tests)
    await compared(shop, HARMLESS)
    asked = [(asked_for(what), diffs) for what, diffs in shop.sandbox.runs]
    files = [one[1] for one, diffs in asked if one and diffs]
    files = [each for each in files if "tests/test_c" not in str(each)]  # without the controls
    assert files == [("tests/test_till.py", "tests/test_a.py")]  # the nearest first


async def test_a_failing_test_that_the_edit_removes_does_not_look_mended(tmp_path: Path) -> None:
    tests = {"tests/test_till.py": f"{COUNT}\n\ndef test_kept():\n    assert False\n"}
    old = "def test_old():\n    assert False\n"
    shop = await opened(tmp_path, {**tests, "tests/test_old.py": old})
    report = await compared(shop, removed_file("tests/test_old.py", old))
    assert report.before.failed == report.after.failed == ("tests/test_till.py::test_kept",)


async def test_an_edit_that_hangs_breaks_the_test_that_hung_and_no_other(tmp_path: Path) -> None:
    tests = {"tests/test_till.py": COUNT, "tests/test_z.py": "def test_z():\n    pass\n"}
    suite = suite_of(await opened(tmp_path, tests), *PYTEST, seconds=6)
    report = await report_of(suite, DIFF.format("__import__('time').sleep(600)"))
    assert report.broken == ("tests/test_till.py::test_count",)
    assert "in time" in report.chosen


async def test_a_command_without_parts_that_never_ends_gives_no_result(tmp_path: Path) -> None:
    talk = "import sys, time\nprint('test_a (x.Y) ... ok', flush=True)\ntime.sleep(600)\n"
    suite = suite_of(
        await opened(tmp_path, {}, **{"talk.py": talk}), "python", "talk.py", seconds=2
    )
    assert await find_broken(suite, BREAKING) is None
    assert "`python talk.py` cannot be run in part" in suite.problem


def test_what_runs_beside_the_tests_is_written_for_old_pythons() -> None:
    folder = files("pipeline.regression.guest")
    for file in folder.iterdir():
        if file.name.endswith(".py"):
            ast.parse(file.read_text(), feature_version=(3, 7))


async def test_another_issue_on_the_same_commit_does_not_repeat_the_tests_without_an_edit(
    till: Shop, tmp_path: Path
) -> None:
    shared = DirStore(tmp_path / "environment")
    runs: list[int] = []
    for issue in ("one", "two"):
        store = SharingStore(DirStore(tmp_path / issue), shared)
        suite = RegressionSuite(till.workspace(Options(test_command=PYTEST), store))
        before = len(till.sandbox.runs)
        assert await find_broken(suite, BREAKING)
        runs.append(sum(not diffs for _, diffs in till.sandbox.runs[before:]))
    assert list((tmp_path / "environment").rglob("*.json"))
    assert runs == [2, 1]  # the control is this issue's own


ADDOPTS = "[pytest]\naddopts = -q -q -x --lf -p helper -k 'not slow'\n"
HELPED = SUITES["HELPED"]


async def test_a_repositorys_own_plugins_and_options_stay(tmp_path: Path) -> None:
    """Only `-x` and `--lf` are overridden, by their names."""
    helper = "import pytest\n\n@pytest.fixture\ndef helped():\n    return 1\n"
    files = {"pytest.ini": ADDOPTS, "helper.py": helper, "test_own.py": HELPED}
    shop = await opened(tmp_path, {"tests/test_till.py": COUNT, **files})
    runner = await runner_of(shop)
    run = await runner.run("", RequestedTests(files=("test_own.py",)))
    assert run.suite.passed == ("test_own.py::test_helped",)
    assert run.suite.failed == ("test_own.py::test_first",)
    apart = ("fetch", "widget", "window")
    assert run.suite.offline == tuple(f"test_own.py::test_{name}" for name in apart)


OWN_SCRIPT: str = TEXTS["OWN_SCRIPT"]
TILL_CASE = SUITES["TILL_CASE"]


async def test_a_script_that_takes_labels_is_asked_for_files_and_distinguished(
    tmp_path: Path,
) -> None:
    tests = {"tests/runtests.py": OWN_SCRIPT, "tests/till/__init__.py": ""}
    shop = await opened(tmp_path, {**tests, "tests/till/tests.py": TILL_CASE})
    runner = await runner_of(shop)
    assert runner.command.kind == "labels"
    run = await runner.run(BREAKING, RequestedTests(files=("tests/till/tests.py",)))
    assert run.suite.passed == ("till.tests.T.test_other",)
    assert run.suite.failed == ("till.tests.T.test_count",)
    assert run.titles == {"till.tests.T.test_count": "Counts."}
    assert set(run.files.values()) == {"tests/till/tests.py"}


FAR = (
    "import time\n\ndef test_far():\n    while time.process_time() < 3:\n        pass\n"
    + "# \n" * 9000
)


async def test_of_a_suite_that_takes_too_long_the_tests_near_the_edit_run(tmp_path: Path) -> None:
    tests = {"tests/test_till.py": COUNT, **{f"tests/test_far{n}.py": FAR for n in range(9)}}
    shop = await opened(tmp_path, tests)
    report = await report_of(suite_of(shop, seconds=5, near=20), HARMLESS)
    assert (report.broken, len(report.before.passed)) == ((), 2)
    assert report.chosen == "those in the test file nearest to the edit"
    assert len(shop.sandbox.runs) == 4
    assert await find_broken(suite_of(shop, seconds=5, near=20), BREAKING) == (
        "tests/test_till.py::test_count",
    )


async def test_how_a_run_without_an_edit_ended_is_told(till: Shop) -> None:
    """The last line said how many tests had begun."""
    assert await suite_of(till).compare(HARMLESS)
    assert "2 tests of this repository pass without an edit." in till.said
    run = Execution(exit_code=None, output="", seconds=1)
    cut = CutShort(ran=4, selected=9)
    ends = SuiteRun(execution=run, passed=("a",), failed=("b",), skipped=("c", "d"), cut=cut)
    told = ("1 test ", ", 1 fails", ", 2 are skipped", "time limit", "4 of 9 tests")
    assert all(words in describe_base(ends) for words in told)


async def test_it_is_told_that_tests_run_which_edits_bring(till: Shop) -> None:
    run = await suite_of(till, near=20).run_brought_tests(HARMLESS, ["tests/test_till.py"])
    assert run
    assert len(run.passed) == 2
    assert len(till.said) == 1


ADDED: str = TEXTS["ADDED"]


@pytest.mark.parametrize(("diff", "runs"), [(HARMLESS, 1), (f"{HARMLESS}{ADDED}", 2)])
async def test_where_the_near_tests_are_all_tests_they_run_with_an_edit_once(
    till: Shop, diff: str, runs: int
) -> None:
    """A test file that the edit brings runs with the whole suite alone."""
    report = await report_of(suite_of(till, near=20), diff)
    assert (len(report.before.passed), report.whole, report.chosen) == (2, 2, "")
    assert len(report.after.passed) == 1 + runs
    assert [diffs for _, diffs in till.sandbox.runs].count((diff,)) == runs


@pytest.mark.parametrize("testpaths", ["[pytest]\ntestpaths = tests\n", "[pytest]\n"])
async def test_an_example_that_cannot_start_hides_no_near_test(
    tmp_path: Path, testpaths: str
) -> None:
    """pytest runs nothing if the `conftest.py` of one file that it is asked for fails."""
    tests = {
        "pytest.ini": testpaths,
        "tests/test_till.py": COUNT,
        "examples/tests/conftest.py": "import not_installed\n",
        "examples/tests/test_till.py": "from shop import till\n\ndef test_till():\n    pass\n",
    }
    shop = await opened(tmp_path, tests)
    near = near_of(shop)
    report = await report_of(near, BREAKING)
    assert report.broken == ("tests/test_till.py::test_count",)


ENDLESS_TESTS: str = TEXTS["ENDLESS_TESTS"]


async def test_a_run_that_the_time_cuts_short_keeps_its_results_to_itself(tmp_path: Path) -> None:
    tests = {"tests/test_slow.py": ENDLESS_TESTS, "tests/test_till.py": COUNT}
    shop = await opened(tmp_path, tests)
    both = SharingStore(DirStore(tmp_path / "own"), DirStore(tmp_path / "shared"))
    runner = await runner_of(shop, *PYTEST, store=both)
    began = time.monotonic()
    await runner.run_changed((), ["tests/test_till.py"])
    needed = time.monotonic() - began  # on this machine, as busy as it is
    run = await runner.run(wall=3 + 10 * needed)
    assert run.suite.passed == ("tests/test_slow.py::test_first",)
    assert (run.ended, run.suite.execution.limit) == (False, "run time")
    assert await runner.run() == run  # a resumed run finds it
    assert not (tmp_path / "shared").exists()


def files_asked(shop: Shop, *, edited: bool) -> list[tuple[str, ...] | None]:
    asked = [(asked_for(what), diffs) for what, diffs in shop.sandbox.runs]
    return [one[1] for one, diffs in asked if one and bool(diffs) == edited]


USES = "from shop import till\n\ndef test_use():\n    assert till.count([1]) != 7\n"


async def test_what_is_named_after_a_changed_module_runs_first_and_by_itself(
    tmp_path: Path,
) -> None:
    """A runner that sorts its files would run it last, or not at all."""
    shop = await opened(tmp_path, {"tests/test_till.py": COUNT, "tests/test_a.py": USES})
    near = near_of(shop)
    report = await report_of(near, HARMLESS)
    assert files_asked(shop, edited=False) == [("tests/test_till.py",), ("tests/test_a.py",)]
    assert (len(report.before.passed), report.unreached, report.is_near) == (3, False, True)
    assert report.chosen == "those in the 2 test files nearest to the edit"
    assert (await near.compare(BREAKING)) is not None
    assert files_asked(shop, edited=True)[-1] != ("tests/test_a.py",)  # the first broke


async def test_near_files_are_counted_where_the_runner_does_not_tell_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TestRunner.run

    async def tell_no_files(*args: Any, **options: Any) -> TestRun:
        return replace(await run(*args, **options), files={})

    monkeypatch.setattr(TestRunner, "run", tell_no_files)
    shop = await opened(tmp_path, {"tests/test_till.py": COUNT, "tests/test_a.py": USES})
    report = await report_of(near_of(shop), HARMLESS)
    assert report.chosen == "those in the 2 test files nearest to the edit"
    assert not report.unreached


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run reports one test, and not its file."""
    end = Execution(exit_code=0, output="", seconds=1)

    async def run(*_: object, **__: object) -> TestRun:
        return TestRun(suite=SuiteRun(execution=end, passed=("a",), failed=()))

    monkeypatch.setattr(TestRunner, "run", run)


@pytest.mark.usefixtures("reported")
async def test_folders_are_counted_where_the_runner_takes_no_files(tmp_path: Path) -> None:
    """Seen: 71 tests of a whole Go package were "in the 3 test files nearest to the edit"."""
    test = 'package p\n\nimport "testing"\n\nfunc TestTill(t *testing.T) {\n\tcount()\n}\n'
    paths = ("a_test.go", "b_test.go", "till_test.go", "till/till_test.go")
    tests = dict.fromkeys(paths, test)
    code = "package p\n\nfunc count() int {\n\treturn 1\n}\n"
    shop = await open_shop(tmp_path, {"go.mod": "module p\n", "till.go": code, **tests})
    near = near_of(shop)
    report = await report_of(near, diff_of(code, code.replace("1", "2"), "till.go"))
    assert report.chosen == "those in the 2 folders nearest to the edit"


@pytest.mark.usefixtures("reported")
async def test_all_tests_are_not_said_to_be_near(tmp_path: Path) -> None:
    """Seen: "1,225 tests of the repository near the edit" of a command that takes no files."""
    shop = await opened(tmp_path, {}, Makefile="check:\n\t./test\n")
    options = Options(test_command=("make", "check"), nearby_seconds=20)
    report = await report_of(NearbyTests(shop.workspace(options)), HARMLESS)
    assert (report.is_near, report.whole, report.chosen) == (False, 1, "")
    assert " near " not in count_near(report)
    assert " near " in count_near(replace(report, whole=0))


def test_of_two_runs_of_near_tests_all_that_ran_are_counted() -> None:
    end = Execution(exit_code=0, output="", seconds=1)
    one = SuiteRun(execution=end, passed=("a", "b"), failed=(), skipped=("s",))
    cut = SuiteRun(execution=end, passed=("c",), failed=(), cut=CutShort(ran=1, selected=4))
    first = SuiteReport(command=("run",), before=one, after=one, files=("a.py",))
    joined = join_near(first, replace(first, before=cut, after=one, files=("b.py",)))
    assert joined.before.cut == CutShort(ran=4, skipped=1, selected=7)
    assert joined.after.cut is None


@pytest.mark.parametrize("first", [True, False])
def test_of_two_runs_that_is_shown_in_which_a_test_breaks(first: bool) -> None:
    def report(name: str, *, breaks: bool) -> SuiteReport:
        run = SuiteRun(
            execution=Execution(exit_code=1, output=f"{name} ran", seconds=1),
            passed=(name,),
            failed=(),
        )
        after = replace(run, passed=(), failed=(name,)) if breaks else run
        return SuiteReport(command=("run",), before=run, after=after, files=(f"{name}.py",))

    joined = join_near(report("a", breaks=first), report("b", breaks=not first))
    assert joined.broken == (("a",) if first else ("b",))
    assert joined.after.execution.output == ("a ran" if first else "b ran")


async def test_edits_of_the_same_code_with_other_tests_share_the_run_without_an_edit(
    tmp_path: Path,
) -> None:
    tests = {f"tests/test_{name}.py": USES for name in ("a", "b")}
    shop = await opened(tmp_path, {"tests/test_till.py": COUNT, **tests})
    near = near_of(shop)
    brought = [diff_of(USES, f"{USES}\n\ndef test_more():\n    pass\n", path) for path in (*tests,)]
    assert await near.compare(HARMLESS)
    assert await near.compare(HARMLESS + brought[0])
    assert await near.compare(HARMLESS + brought[1])
    asked = files_asked(shop, edited=False)
    assert asked == [("tests/test_till.py",), ("tests/test_a.py", "tests/test_b.py")]


async def test_a_file_whose_tests_are_all_skipped_gives_up_its_place(tmp_path: Path) -> None:
    skipped = f"import pytest\npytestmark = pytest.mark.skip\n{COUNT}"
    shop = await opened(tmp_path, {"tests/test_till.py": skipped, "tests/test_a.py": USES})
    near = near_of(shop)
    assert await near.compare(HARMLESS)
    before = len(shop.sandbox.runs)
    assert await near.compare(HARMLESS.replace("list(", "tuple("))
    later = [asked_for(what) for what, _ in shop.sandbox.runs[before:]]
    assert all(one and one[1] != ("tests/test_till.py",) for one in later)


async def test_that_no_test_of_a_changed_module_ran_is_said(tmp_path: Path) -> None:
    shop = await opened(tmp_path, {"tests/test_words.py": "def test_count():\n    pass\n"})
    report = await report_of(near_of(shop), HARMLESS)
    assert report.unreached
    assert "None of these tests" in describe_cut(report)
    assert describe_cut(replace(report, unreached=False)) == ""


async def test_the_run_without_an_edit_begins_before_any_edit_is_known(tmp_path: Path) -> None:
    shop = await opened(tmp_path, {"tests/test_till.py": COUNT, "tests/test_a.py": USES})
    suite = suite_of(shop, near=20)
    await suite.prepare(["shop/till.py"])
    ahead = len(shop.sandbox.runs)
    assert ahead
    await report_of(suite_of(shop, near=20), HARMLESS)
    assert None not in files_asked(shop, edited=False)[ahead:]  # all of them ran ahead


async def test_the_files_that_a_run_names_first_run_first(tmp_path: Path) -> None:
    case = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        pass\n"
    shop = await opened(tmp_path, {f"tests/test_{name}.py": case for name in "abc"})
    for command in (PYTEST, ("python", "-m", "unittest", "discover", "-s", "tests")):
        runner = await runner_of(shop, *command)
        run = await runner.run("", RequestedTests(first=("tests/test_c.py", "tests/test_b.py")))
        assert [path[-4] for path in run.files.values()] == ["c", "b", "a"]


async def test_a_line_for_a_shell_is_recorded_by_name_and_runs_parts(tmp_path: Path) -> None:
    files = {
        "backend/till.py": "def count(prices):\n    return len(prices)\n",
        "backend/tests/test_till.py": "import os\nfrom till import count\n\n"
        "def test_count():\n    assert count([1]) == 1 and os.environ['KILN'] == 'hot'\n",
    }
    shop = await open_shop(tmp_path, files)
    line = f"cd backend && KILN=hot {sys.executable} -m pytest -q | tee /dev/null"
    diff = (
        "--- a/backend/till.py\n+++ b/backend/till.py\n@@ -1,2 +1,2 @@\n def count(prices):\n"
        "-    return len(prices)\n+    return 7\n"
    )
    report = await report_of(suite_of(shop, "sh", "-c", line, near=20), diff)
    assert report.broken == ("backend/tests/test_till.py::test_count",)
