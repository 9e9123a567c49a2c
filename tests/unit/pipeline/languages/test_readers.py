"""Names and outcomes in what runners print."""

from pipeline.languages.readers import parse_console_output


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
    assert parse_console_output(output) == (
        {"t.py::a", "t.py::b[x - y]", "t.py::c[<object at 0x>]"},
        {"t.py::d", "t.py::e"},
    )


def test_a_summary_with_names_missing_is_not_trusted() -> None:
    assert parse_console_output(report("PASSED t.py::a", passed=2)) == (set(), set())


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
    assert parse_console_output(output) == (
        {"test_a (tests.t.T.test_a)", "test_d (tests.t.T.test_d)"},
        {"test_b (tests.t.T.test_b)", "nope (unittest.loader._FailedTest.nope)"},
    )
