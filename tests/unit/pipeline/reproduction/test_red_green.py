"""The runners of a reproduction test, and the command that a person types."""

import pytest

from pipeline.data.types import Reproduction, Rung
from pipeline.languages.python.file_runner import QUIET, PythonRunner
from pipeline.languages.test_command import repeat_for
from pipeline.reproduction.red_green import advise_command, show_command
from sandbox.frozen import replace
from sandbox.program import Execution

PATH = "tests/test_till.py"
ADDED = "+\n+\n+def test_nothing():\n+    assert not total([])\n"
TWO = f"{ADDED}+\n+\n+def test_one():\n+    assert total([1])\n"
PYTEST = ("python", "-m", "pytest", *QUIET)
UNITTEST = ("python", "-m", "unittest", "-v")
RUN = Execution(exit_code=1, output="", seconds=0)


def build_test(
    added: str, *command: str, rung: Rung = "extension", old: str = f"a/{PATH}"
) -> Reproduction:
    diff = f"--- {old}\n+++ b/{PATH}\n@@ -1,1 +1,{added.count(chr(10)) + 1} @@\n x = 1\n{added}"
    if old == "/dev/null":
        diff = f"--- {old}\n+++ b/{PATH}\n@@ -0,0 +1,{added.count(chr(10))} @@\n{added}"
    new = "".join(line[1:] + "\n" for line in added.splitlines())
    text = new if old == "/dev/null" else f"x = 1\n{new}"
    return Reproduction(
        path=PATH, text=text, diff=diff, command=command, before=RUN, after=RUN, rung=rung
    )


@pytest.mark.parametrize("rung", ["extension", "the edit's own tests"])
def test_it_names_the_new_test_and_nothing_that_only_the_sandbox_needs(rung: Rung) -> None:
    test = build_test(ADDED, *PYTEST, PATH, rung=rung)
    assert advise_command(test) == f"python -m pytest -k test_nothing {PATH}"


def test_several_tests_are_quoted_for_a_shell() -> None:
    said = f"python -m pytest -k 'test_nothing or test_one' {PATH}"
    assert advise_command(build_test(TWO, *PYTEST, PATH)) == said
    ran = build_test(TWO, *PYTEST, "-k", "test_nothing or test_one", PATH)
    assert advise_command(ran) == said


def test_a_command_that_ran_is_shown_as_one_types_it() -> None:
    assert show_command((*PYTEST, "-k", "test_a or test_b", PATH)) == (
        f"python -m pytest -k 'test_a or test_b' {PATH}"
    )


def test_unittest_names_each_test() -> None:
    said = f"python -m unittest -v -k test_nothing -k test_one {PATH}"
    assert advise_command(build_test(TWO, *UNITTEST, PATH)) == said


def test_a_new_file_holds_nothing_but_the_test() -> None:
    test = build_test(ADDED, *PYTEST, PATH, rung="new file", old="/dev/null")
    assert advise_command(test) == f"python -m pytest {PATH}"


@pytest.mark.parametrize("place", ["test_till.TillTest", "test_till.TillTest.test_nothing"])
def test_the_runner_of_django_takes_the_label_of_the_new_test_that_ran(place: str) -> None:
    labels = ("python", "tests/runtests.py", "-v", "2", "--parallel", "1", "test_till")
    test = build_test(ADDED, *labels)
    # It may stand in a class that only others inherit: what ran counts.
    output = f"test_nothing ({place})\nSays why ... FAIL\ntest_old (test_till.TillTest) ... ok\n"
    ran = replace(test, before=replace(RUN, output=output))
    said = "python tests/runtests.py -v 2 test_till.TillTest.test_nothing"
    assert advise_command(ran) == said
    assert advise_command(test) == "python tests/runtests.py -v 2 test_till"
    many = "".join(f"test_nothing (test_till.Till{n}) ... FAIL\n" for n in range(9))
    ran = replace(test, before=replace(RUN, output=many))
    assert advise_command(ran) == "python tests/runtests.py -v 2 test_till"


def test_a_script_and_another_runner_are_as_they_ran() -> None:
    assert advise_command(build_test(ADDED, "python", PATH, rung="script file")) == f"python {PATH}"
    labels = ("python", "runtests.py", "--parallel", "1", "till.tests")
    assert advise_command(build_test(ADDED, *labels)) == "python runtests.py till.tests"


UNITTEST_RUNNER = PythonRunner(kind="unittest", argv=("python", "-m", "unittest"))
MANY = "9" * 5_000
"""More digits than Python converts to a number."""


@pytest.mark.parametrize(
    ("output", "passed"),
    [
        ("Ran 2 tests in 0.1s\n\nOK", True),
        ("Ran 2 tests in 0.1s\n\nOK (skipped=1)", True),
        ("Ran 2 tests in 0.1s\n\nOK (skipped=2)", False),
        ("Ran 0 tests in 0.1s\n\nOK", False),
        (f"Ran {MANY} tests in 0.1s\n\nOK", False),
        (f"Ran 2 tests in 0.1s\n\nOK (skipped={MANY})", True),
    ],
)
def test_a_test_that_passed_is_counted_without_those_skipped(output: str, passed: bool) -> None:
    assert UNITTEST_RUNNER.has_passing_test(output) is passed


def test_colours_do_not_hide_what_ran() -> None:
    runner = PythonRunner(kind="pytest", argv=PYTEST)
    assert runner.has_passing_test("\x1b[32m\x1b[1m2 passed\x1b[0m in 0.08s")
    assert not runner.has_passing_test("\x1b[33m1 skipped\x1b[0m")


GO_TEST = 'package till\n\nimport "testing"\n\nfunc Test{}(t *testing.T) {{\n}}\n'


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ("One", "go test -run '^TestOne$' ./till"),
        ("One(t *testing.T) {\n}\n\nfunc TestTwo", "go test -run '^(TestOne|TestTwo)$' ./till"),
        ("helper", "go test ./till"),
    ],
)
def test_of_a_go_package_the_tests_of_the_file_are_named(tests: str, said: str) -> None:
    """Seen: the advised command ran the whole package."""
    test = Reproduction(
        path="till/till_test.go",
        text=GO_TEST.format(tests).replace("Testhelper", "helper"),
        diff="",
        command=("go", "test", "-json", "./till"),
        before=RUN,
        after=RUN,
        rung="the edit's own tests",
    )
    assert advise_command(test) == said
    top = replace(test, command=repeat_for(("go", "test", "./{folder}"), ["till_test.go"]))
    assert advise_command(top).endswith(" .")
