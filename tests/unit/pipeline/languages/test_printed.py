"""What of a runner's output is shown to people."""

import tomllib
from pathlib import Path

import pytest

from pipeline.languages.registry import (
    drop_progress,
    find_counts,
    find_error,
    read_test_outcome,
    shorten_failures,
    show_end,
)
from sandbox.program import Execution
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)
OUTPUT: str = TEXTS["OUTPUT"]


def test_progress_that_a_test_printed_is_evidence() -> None:
    assert drop_progress(OUTPUT) == OUTPUT.split("\n", 2)[2]


def pytest_failure(name: str, error: str, captured: str = "") -> str:
    heading = f" {name} ".center(80, "_")
    said = f"{' Captured stdout call '.center(80, '-')}\n{captured}" if captured else ""
    return f"{heading}\n\nE       {error}\n\nt.py:3: AssertionError\n{said}"


def pytest_run(*failures: str, summary: str, counts: str) -> str:
    heading = " FAILURES ".center(80, "=")
    named = " short test summary info ".center(80, "=")
    return f"{heading}\n{''.join(failures)}{named}\n{summary}\n{counts}\n"


INNER = pytest_run(
    pytest_failure("test2", "assert 42 == 0"),
    summary="FAILED inner.py::test2 - assert 42 == 0",
    counts="======== 1 failed, 1 passed in 0.01s ========",
)


def test_a_failure_that_a_test_printed_is_no_further_failure() -> None:
    output = pytest_run(
        pytest_failure("test_undo", "assert passed", INNER),
        summary="FAILED t.py::test_undo - assert passed",
        counts="1 failed, 14 passed in 0.45s",
    )
    assert shorten_failures(output) == output


def test_a_failure_that_a_test_printed_is_shown_with_that_test() -> None:
    output = pytest_run(
        pytest_failure("TestUndo.test_one", "assert passed", INNER),
        pytest_failure("ERROR at setup of test_other", "assert other", INNER),
        summary="FAILED t.py::TestUndo::test_one - assert passed\nERROR t.py::test_other",
        counts="1 failed, 14 passed, 1 error in 0.45s",
    )
    shown = shorten_failures(output)
    assert shown.startswith(pytest_failure("TestUndo.test_one", "assert passed", INNER))
    assert "assert other" not in shown
    assert "\n[... 1 more failure left out ...]\n" in shown
    assert shown.count("assert 42 == 0") == 2
    assert shown.endswith("ERROR t.py::test_other\n1 failed, 14 passed, 1 error in 0.45s")


LINE = "=" * 70
DASHES = "-" * 70
UNITTEST_END = (
    f"{DASHES}\nRan 384 tests in 2.7s\n\nFAILED (failures=9, skipped=2, expected failures=1)"
)


def test_the_end_of_an_error_is_not_taken_for_a_line_between_failures() -> None:
    failures = [
        f"{LINE}\nFAIL: test_{n} (t.Case)\n{DASHES}\nAssertionError: 'b' != 'fQ=='\n+ fQ==\n\n"
        for n in range(3)
    ]
    assert shorten_failures(f"{''.join(failures)}{UNITTEST_END}\n") == (
        f"FAIL: test_0 (t.Case)\n{DASHES}\nAssertionError: 'b' != 'fQ=='\n+ fQ==\n"
        # The others are not all in an output of which the middle is left out.
        f"[... 8 more failures left out ...]\n{UNITTEST_END}"
    )


DJANGO = f"""\
Testing against Django installed in '/testbed/django'
Importing application queries
Skipping setup of unused database(s): other.
Creating test database for alias 'default' ('file:memorydb_default?mode=memory')...
Operations to perform:
  Synchronize unmigrated apps: auth, contenttypes, messages, queries
  Apply all migrations: admin, sites
Synchronizing apps without migrations:
  Creating tables...
    Creating table django_content_type
    Running deferred SQL...
Running migrations:
  Applying admin.0001_initial... OK
System check identified no issues (1 silenced).
test_order (queries.tests.Tests) ... skipped 'no'
Creating a table takes long.

{DASHES}
Ran 27 tests in 0.427s

OK (skipped=2)
"""


def test_preparations_of_a_runner_are_left_out() -> None:
    assert drop_progress(DJANGO) == DJANGO[DJANGO.index("test_order") :]


def test_of_a_run_that_passed_only_the_summary_is_shown() -> None:
    assert show_end(DJANGO) == f"{DASHES}\nRan 27 tests in 0.427s\n\nOK (skipped=2)"
    assert show_end("..\na warning\n15 passed in 0.32s\n") == "15 passed in 0.32s"
    assert show_end("fixed\n") == "fixed\n"


WIDE = "test_inline[verify-" + "x" * 90 + "]"
SOURCE = "".join(f"    @pytest.mark.parametrize('a{n}', [])\n" for n in range(200))


def test_a_failure_is_its_own_lines_however_wide_its_name() -> None:
    failures = [
        f"_ {name} _\n{SOURCE}    def test_inline():\n>       check(1)\n\n"
        "tests/test_markup.py:12: \n\n    def check(a):\n>       assert a == 2\n"
        "E       assert 1 == 2\n\ntests/test_markup.py:40: AssertionError\n"
        for name in (WIDE, WIDE.replace("verify", "other"))
    ]
    shown = shorten_failures("".join(failures) + "======== 2 failed, 1 passed in 0.01s ========\n")
    assert shown.count("assert 1 == 2") == 1
    assert "[... 1 more failure left out ...]" in shown
    assert len(shown.split("\n")) < 80
    assert WIDE in shown
    alone = shorten_failures(failures[0] + "======== 1 failed in 0.01s ========\n")
    assert len(alone.split("\n")) < 80


def test_a_long_chain_of_calls_is_shown_by_its_ends() -> None:
    frames = "".join(
        f"    def call{n}():\n        a = {n}\n>       call{n + 1}()\n\nnet.py:{n}: \n"
        + "_ " * 40
        + "\n"
        for n in range(100)
    )
    output = (
        f"{' test_fetch '.center(80, '_')}\n{frames}E   OSError: no network\n\nnet.py:9: OSError\n"
    )
    shown = shorten_failures(output)
    assert len(shown.split("\n")) < 100
    assert "E   OSError: no network" in shown
    shown = shorten_failures(output.replace(frames, f"{frames}E   KeyError: 'net'\n\n{frames}"))
    assert len(shown.split("\n")) < 200
    assert shown.index("E   KeyError: 'net'") < shown.index("E   OSError: no network")


SYMPY: str = TEXTS["SYMPY"]


def test_sympys_traceback_is_shown_in_place_of_its_slowest_tests() -> None:
    shown = shorten_failures(SYMPY)
    assert "AssertionError" in shown
    assert "slowest" not in shown
    assert "ValueError" not in shown
    assert "[... 1 more failure left out ...]" in shown


FAILED: dict[str, tuple[str, str, str]] = {
    "a.test.js": ("ok {0} adds {0}", "not ok 61 adds up\n  Error: -1", "# pass 60\n# fail 1"),
    "a.rs": ("test adds_{0} ... ok", "---- up stdout ----\nthread 'up' panicked at a:1:\n-1", ""),
    "a_test.go": ("--- PASS: Test{0} (0.00s)", "--- FAIL: TestUp (0.00s)\n    a.go:1: -1", "FAIL"),
    "a_spec.rb": ("A#test_{0} = 0.00 s = .", "  1) Failure:\nA#test_up [a.rb:1]:\n-1", ""),
    "ATest.php": ("✔ Adds {0}", "1) ATest::up\n-1", "Tests: 61, Assertions: 61, Failures: 1."),
    "ATest.java": ("ATest > adds{0}() PASSED", "ATest > up() FAILED\n    Error: -1", ""),
    "a_test.c": ("ok {0} - adds", "FAIL: up", ""),
}
"""By test file: a test that passed, one that failed, what the runner says at its end."""


@pytest.mark.parametrize("path", FAILED)
@pytest.mark.parametrize("noise", [0, 5])
def test_among_many_tests_that_pass_the_one_that_fails_is_shown(path: str, noise: int) -> None:
    passed, failed, end = FAILED[path]
    lines = [passed.format(n) + "\n  printed" * noise for n in range(60)]
    shown = shorten_failures("\n".join([*lines, failed, end]), path)
    assert failed in shown
    assert passed.format(59) not in shown
    if path in ("a.test.js", "a.rs", "a_spec.rb", "ATest.php"):
        assert len(shown.split("\n")) < 100


def test_the_log_of_the_test_that_failed_is_shown_not_its_name_alone() -> None:
    rule = 30 * "="
    heading = f"FAIL: tests/shtest\n{rule}\n\n-1\n"
    output = f"FAIL: tests/shtest\nPASS: tests/utf8\n# PASS:  1\n# FAIL:  1\n\n{heading}"
    assert shorten_failures(output, "tests/shtest") == output


def test_many_skips_are_left_out() -> None:
    skips = "".join(
        f"test_{n} (postgres_tests.test_array.Tests) ... skipped 'no'\n" for n in range(30)
    )
    assert drop_progress(f"{skips}a warning\n") == "a warning\n"


PRINTS = tomllib.loads(Path(__file__).with_name("prints.toml").read_text("utf-8"))


@pytest.mark.parametrize("told", PRINTS["prints"], ids=lambda told: told["error"])
def test_the_first_error_and_the_counts_are_told_in_each_runners_words(
    told: dict[str, str],
) -> None:
    path, output = told["path"], told["output"]
    assert (find_error(path, output), find_counts(path, output)) == (told["error"], told["counts"])


@pytest.mark.parametrize("outcome", PRINTS["ended"])
def test_a_run_that_skips_every_test_is_no_pass(outcome: str) -> None:
    for path, outputs in PRINTS["ended"][outcome].items():
        for output in outputs:
            run = Execution(exit_code=0, output=f"{output}\n", seconds=1)
            assert read_test_outcome(path, run) == outcome, output
