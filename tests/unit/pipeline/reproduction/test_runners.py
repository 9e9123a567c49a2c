"""What the output of a runner says about one test file."""

from __future__ import annotations

import pytest

from pipeline.reproduction.red_green import FileRunner

UNITTEST = FileRunner(kind="unittest", argv=("python", "-m", "unittest"))
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
    assert UNITTEST.has_passing_test(output) is passed
