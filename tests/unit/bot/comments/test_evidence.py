"""What of a runner's output is shown to people."""

from __future__ import annotations

from bot.comments.evidence import drop_progress, shorten_failures, show_end

OUTPUT = """\
tests/test_a.py ...F                                                    [ 80%]
                                                                         [100%]
=================================== FAILURES ===================================
____________________________________ test_d ____________________________________
----------------------------- Captured stdout call -----------------------------
dir/test_it.py .                                                         [100%]
=========================== short test summary info ============================
FAILED tests/test_a.py::test_d
"""


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
