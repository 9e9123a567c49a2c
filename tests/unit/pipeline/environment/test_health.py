"""Kinds of failures, in what test runners print."""

import time

import pytest

from pipeline.environment.health import (
    LONGEST_ERROR,
    Grade,
    Health,
    count_kinds,
    find_commonest_error,
)
from sandbox.frozen import replace
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
PYTEST: str = TEXTS["PYTEST"]
UNITTEST: str = TEXTS["UNITTEST"]
CRASH = "INTERNALERROR> pluggy._manager.PluginValidationError: unknown hook 'pytest_namespace'"


@pytest.mark.parametrize(
    ("output", "kinds"),
    [
        (PYTEST, {"assertion": 1, "fixture or plugin": 1, "import error": 1}),
        (UNITTEST, {"network": 1, "assertion": 1}),
        (CRASH, {"fixture or plugin": 1}),
        ("/opt/env/bin/python: No module named pytest", {"missing module": 1}),
        ("_tkinter.TclError: no display name and no $DISPLAY environment variable", {"display": 1}),
        ("Xlib.error.DisplayConnectionError: Can't connect to display", {"display": 1}),
        ("KeyError: 'DISPLAY'", {"display": 1}),
        ("1: FAIL\n./test.sh: 9: docker: not found\n", {"missing program": 1}),
        ("12 passed in 0.10s", {}),
        ("", {}),
    ],
)
def test_failures_are_counted_by_kind(output: str, kinds: dict[str, int]) -> None:
    assert count_kinds(output) == kinds


REFUSED: str = TEXTS["REFUSED"]


@pytest.mark.parametrize(
    ("output", "error", "times"),
    [
        (PYTEST + REFUSED.format(n=1) + REFUSED.format(n=2),
         "TypeError: __init__() got an unexpected keyword argument 'strict' at 0x7f2c631", 2),
        (UNITTEST, "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name "
         "resolution>", 1),
        (REFUSED.format(n="\x1b[31m"), "TypeError: __init__() got an unexpected keyword argument "
         "'strict' at 0x7f2c63 [31m", 1),
        ("12 passed in 0.10s", "", 0),
        ("1: x\n./test.sh: 9: docker: not found\n", "./test.sh: 9: docker: not found", 1),
    ],
)  # fmt: skip
def test_the_error_of_most_failures_is_told(output: str, error: str, times: int) -> None:
    assert find_commonest_error(output) == (error, times)


def test_a_told_error_is_bounded() -> None:
    assert len(find_commonest_error(f"____ test_a ____\nE   {'x' * 5000}")[0]) == LONGEST_ERROR


@pytest.mark.parametrize("line", ["_" * 20, "a." * 20_000 + "Error", "E " * 20_000, "=" * 50_000])
def test_hostile_output_takes_no_time(line: str) -> None:
    began = time.thread_time()
    count_kinds(f"{line}\n" * 20)
    find_commonest_error(f"{line}\n" * 20)
    assert time.thread_time() - began < 5


def test_one_test_of_many_files_is_not_healthy() -> None:
    health = Health(python="3.11", command=("pytest",), of_files=25, reach=1, passed=1, collected=1)
    assert health.grade is Grade.USABLE
    assert "1 of 25 test files" in health.summary()
    assert replace(health, reach=20).grade is Grade.HEALTHY
    assert replace(health, reach=0).grade is Grade.HEALTHY  # it is not known
