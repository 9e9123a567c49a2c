"""Which results of tests are read from an execution, no matter who wrote its output."""

import asyncio
import base64
import gc
import json
import time
import zlib

import pytest

from pipeline.data.suite_reports import CutShort, SuiteRun
from pipeline.languages.readers import parse_junit
from pipeline.languages.test_command import TestCommand, run_in_turn
from pipeline.regression.results import TestRun, join_files, split_by_file, unpack
from pipeline.regression.runner import (
    FORGED,
    INCOMPLETE,
    TOO_MUCH,
    parse_execution,
    parse_in_process,
    parse_untrusted_execution,
)
from sandbox.frozen import replace
from sandbox.program import Ending, Execution
from tests.support.fakes import format_section

MARK = "capuchin-0123"
PYTEST = TestCommand(argv=("pytest",), kind="pytest", source="configuration")
MAKE = TestCommand(argv=("make", "test"), kind="other", source="configuration")
FINE = Execution(exit_code=0, output="fine", seconds=1)


def section(kind: str, data: bytes) -> str:
    return format_section(MARK, kind, data)


def printed(*rows: object, end: dict[str, object] | None = None, before: str = "") -> TestRun:
    """What is read from an execution whose recorder wrote `rows`."""
    data = b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)
    said = {"code": 0} if end is None else end
    output = before + section("records", data) + section("end", json.dumps(said).encode())
    stated = said["code"]
    code = stated if isinstance(stated, int) else 128 if stated is None else 0
    return parse_execution(Execution(exit_code=code, output=output, seconds=1), PYTEST, MARK)


def went(name: str, *outcomes: str) -> list[object]:
    phases = [
        ["phase", name, when, outcome, 0.5] for when, outcome in zip(WHEN, outcomes, strict=False)
    ]
    return [["start", name, "t.py", 7.5], *phases]


WHEN = ("setup", "call", "teardown")


def test_a_test_passes_only_if_no_part_of_it_fails() -> None:
    run = printed(
        *went("a", "passed", "passed", "passed"),
        *went("b", "passed", "failed", "passed"),
        *went("c", "passed", "passed", "failed"),
        *went("d", "failed"),
        *went("e", "passed", "skipped", "passed"),
        *went("f", "passed", "xfail", "passed"),
    )
    assert run.suite.passed == ("a",)
    assert run.suite.failed == ("b", "c", "d")
    assert run.suite.errors == ("c", "d")
    assert run.suite.skipped == ("e", "f")
    assert run.seconds["a"] == 1.5


def test_a_test_that_began_and_never_ended_failed() -> None:
    assert printed(["start", "a", "t.py", 7]).suite.failed == ("a",)


def test_the_time_before_the_first_test_is_reported_within_reason() -> None:
    rows = went("a", "passed", "passed")
    assert printed(*rows, end={"code": 0, "began": 7.0}).start == 0.5
    assert printed(*rows, end={"code": 0, "began": 1e10}).start == 0
    assert printed(*rows, end={"code": 0, "began": 0}).start == 1  # all that it took


def test_a_rerun_counts_by_its_last_attempt() -> None:
    run = printed(*went("a", "passed", "rerun", "passed"), *went("a", "passed", "passed", "passed"))
    assert run.suite.passed == ("a",)


def test_rows_of_another_form_are_passed_over() -> None:
    rows: list[object] = [
        b"\xff\xfe{",
        b"[" * 100_000,
        {},
        [],
        ["phase", "a"],
        ["phase", 1, 2, 3, 4],
        ["ran", "a", 1, {}],
        ["ran", "a", 1, [[], "x", 5]],
        ["function", 1, 1, "x.py", "y"],
        ["start", "a", None],
    ]
    run = printed(*rows, *went("good", "passed", "passed"))
    assert run.suite.passed == ("good",)


def test_names_are_on_one_line_and_short() -> None:
    run = printed(*went("t.py::a[x\ny \u2028\x1b[31m] " + "z" * 9000, "passed", "passed"))
    (name,) = run.suite.passed
    assert "\n" not in name
    assert "\x1b" not in name
    assert len(name) <= 500


def test_a_name_that_is_no_text_can_be_saved() -> None:
    run = printed(*went("t.py::a[\ud800]", "passed", "passed"))
    assert TestRun.model_validate_json(run.model_dump_json()).suite.passed == ("t.py::a[\\ud800]",)


def test_a_section_that_unpacks_without_end_is_dropped() -> None:
    bomb = base64.b64encode(zlib.compress(b"a" * 5_000_000)).decode()
    assert unpack(bomb, 1_000_000) == b""
    assert len(unpack(bomb, 5_000_000)) == 5_000_000
    assert unpack("not base64", 10) == b""
    assert unpack(base64.b64encode(b"not zlib").decode(), 10) == b""


def test_what_tests_print_is_no_record() -> None:
    other = section("records", json.dumps(went("x", "passed")[0]).encode())
    other = other.replace(MARK, "capuchin-9999")
    run = printed(*went("a", "passed", "passed"), before=f"<testsuite/>\nPASSED y\n{other}")
    assert run.suite.passed == ("a",)
    assert "capuchin-9999" in run.suite.execution.output
    assert MARK not in run.suite.execution.output


RESULTS = section(
    "records", b"\n".join(json.dumps(row).encode() for row in went("a", "passed", "passed"))
)
END = section("end", b'{"code": 0}')
FORGED_OUTPUTS = {
    "a second set of results": (RESULTS + RESULTS + END, 0, Ending.EXIT),
    "a second end": (RESULTS + END + END, 0, Ending.EXIT),
    "results of a wrapper that was killed": (RESULTS + END, None, Ending.KILLED),
    "results of a wrapper that broke down": (RESULTS, 1, Ending.EXIT),
    "results of a wrapper that ended otherwise": (RESULTS + END, 1, Ending.EXIT),
}


@pytest.mark.parametrize("case", FORGED_OUTPUTS)
def test_results_that_the_wrapper_did_not_print_alone_are_not_believed(case: str) -> None:
    output, code, ending = FORGED_OUTPUTS[case]
    execution = Execution(exit_code=code, output=output, seconds=1, ending=ending)
    run = parse_execution(execution, PYTEST, MARK)
    assert (run.suite.passed, run.suite.failed, run.ended) == ((), (), False)
    assert run.problem == FORGED


def test_an_end_by_time_or_signal_is_not_the_wrappers_exit_code() -> None:
    late = printed(end={"code": None, "timeout": True})
    assert late.suite.execution.ending is Ending.TIMEOUT
    assert late.suite.execution.exit_code is None
    assert not late.ended
    killed = printed(end={"code": None, "signal": 11})
    assert killed.suite.execution.ending is Ending.KILLED
    assert printed(end={"code": "x"}).suite.execution == replace(FINE, output="")


def test_a_run_without_a_word_of_its_end_did_not_end() -> None:
    assert not parse_execution(FINE, PYTEST, MARK).ended


def test_another_command_counts_as_one_test_by_its_exit_code() -> None:
    for code, passed, failed in ((0, ("make test",), ()), (1, (), ("make test",))):
        run = parse_execution(replace(FINE, exit_code=code), MAKE, MARK)
        assert (run.suite.passed, run.suite.failed, run.per_test) == (passed, failed, False)


XML = b"""<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="a.B" name="one" time="0.25"/>
<testcase classname="a.B" name="two &#10; [x]"><failure message="m"/></testcase>
<testcase classname="a.B" name="three" time="soon"><skipped/></testcase>
<testcase classname="a.B" name="four" time="nan"><error/></testcase>
<testcase name="five" time="259200.5"/><testcase/>
</testsuite></testsuites>"""


def test_junit_is_read() -> None:
    found = parse_junit([XML])
    assert found.passed == {"a.B::one", "five"}
    assert found.failed == {"a.B::two \\n [x]", "a.B::four"}
    assert found.seconds["a.B::one"] == 0.25
    assert found.seconds["a.B::four"] == found.seconds["five"] == 0
    node = b'<testsuite name="bind"><testcase classname="test" name="six"/></testsuite>'
    assert parse_junit([node]).passed == {"bind::six"}


def test_junit_with_entities_or_no_xml_at_all_gives_no_result() -> None:
    laughs = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><testsuite><testcase name="&a;"/></testsuite>'
    file = b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite><testcase name="a"/></testsuite>'
    found = parse_junit([laughs, file, b"<testsuite", b"\xff", b""])
    assert not found.passed
    assert not found.failed


def test_a_command_that_writes_junit_is_distinguished_by_it() -> None:
    output = (
        section("records", b"")
        + section("junit", b"a/b.xml\n" + XML)
        + section("end", b'{"code": 1}')
    )
    run = parse_execution(Execution(exit_code=1, output=output, seconds=1), MAKE, MARK)
    assert run.suite.passed == ("a.B::one", "five")
    assert run.per_test


def test_of_a_long_output_the_failure_is_kept() -> None:
    noise = "Error: err!\n    at Layer.handle (lib/layer.js:169:33)\n" * 400
    lines = f"{noise}ok 1 - a\n{noise}not ok 2 - b\n  Error: links\n{noise}ok 3 - c\n"
    output = f"{lines}# pass 2\n# fail 1\n" + section("records", b"")
    output += section("end", b'{"code": 1}')
    command = TestCommand(argv=("npx", "mocha"), source="detection", reader="lines")
    run = parse_execution(Execution(exit_code=1, output=output, seconds=1), command, MARK)
    assert "not ok 2 - b\n  Error: links" in run.suite.execution.output


def test_results_of_several_folders_have_these_before_their_names() -> None:
    argv = run_in_turn([("", ["make", "check"]), ("api", ["a"]), ("web", ["b"])])
    command = TestCommand(argv=argv, source="detection", folders=("api", "web"), reader="lines")
    printed = "[in .]\nok 1 - a\n[in api]\nok 1 - a\n[in web]\nnot ok 1 - a\n"
    output = printed + section("records", b"") + section("junit", b"web/x/j.xml\n" + XML)
    output += section("end", b'{"code": 1}')
    run = parse_execution(Execution(exit_code=1, output=output, seconds=1), command, MARK)
    assert run.suite.passed == ("a", "api/a", "web/a.B::one", "web/five")
    assert "web/a" in run.suite.failed


CRASHES = {3: "INTERNALERROR> KeyError: 1", 4: "ERROR: usage", 5: "no tests ran"}


@pytest.mark.parametrize("code", CRASHES)
def test_a_pytest_that_broke_down_or_collected_nothing_gives_no_result(code: int) -> None:
    output = CRASHES[code] + section(
        "records", json.dumps(went("a", "passed", "passed")[1]).encode()
    )
    output += section("end", json.dumps({"code": code}).encode())
    run = parse_execution(Execution(exit_code=code, output=output, seconds=1), PYTEST, MARK)
    assert (run.suite.passed, run.suite.failed) == ((), ())
    assert CRASHES[code] in run.problem


def test_a_runner_that_broke_down_half_way_gives_no_result() -> None:
    """Django's parallel runner without tblib: it dies at the first test that fails."""
    lines = "test_a (m.C) ... ok\nTypeError: cannot pickle 'traceback' object\n"
    django = TestCommand(argv=("python", "x.py"), kind="other", source="detection")
    run = parse_execution(Execution(exit_code=1, output=lines, seconds=1), django, MARK)
    assert (run.suite.passed, run.suite.failed) == ((), ())
    assert run.problem == INCOMPLETE
    lines += "test_b (m.C) ... expected failure\ntest_c (m.C) ... skipped 'no'\n"
    whole = lines + "Ran 3 tests in 0.1s\n\nOK (skipped=1, expected failures=1)\n"
    run = parse_execution(Execution(exit_code=0, output=whole, seconds=1), django, MARK)
    assert (run.suite.passed, run.problem) == (("test_a (m.C)",), "")


def test_tests_that_need_a_network_are_no_failures() -> None:
    run = printed(["network", "b"], ["network", "c"], *went("b", "passed", "failed"))
    assert (run.suite.failed, run.suite.offline) == ((), ("b",))


SYMPY = """\
============================= test process starts ==============================
sympy/core/tests/test_a.py[4]
test_one ok
test_two some words
F
test_three f
test_four s
sympy/core/tests/test_b.py[1]
test_one ok                                                                 [OK]
sympy/core/tests/test_c.py[?]   Failed to import                          [FAIL]
"""
SUMMARY = "=== tests finished: 2 passed, 1 failed, 1 expected to fail, in 1.2 seconds ==="


def test_sympys_own_script_is_read_by_its_lines() -> None:
    command = TestCommand(argv=("python", "bin/test"), kind="files", source="detection")
    a, b = "sympy/core/tests/test_a.py", "sympy/core/tests/test_b.py"
    execution = Execution(exit_code=1, output=SYMPY + SUMMARY, seconds=1)
    run = parse_execution(execution, command, MARK)
    # test_three is an expected failure: with an edit that mends it, it would not pass but be `X`.
    assert run.suite.passed == (f"{a}::test_one", f"{b}::test_one")
    assert run.suite.failed == (f"{a}::test_two", "sympy/core/tests/test_c.py")
    assert run.suite.errors == ("sympy/core/tests/test_c.py",)
    assert run.suite.skipped == (f"{a}::test_four", f"{a}::test_three")
    assert run.files[f"{b}::test_one"] == b
    cut = parse_execution(replace(execution, output=SYMPY), command, MARK)
    assert (cut.suite.passed, bool(cut.problem)) == ((), True)


def ended(limit: str) -> dict[str, object]:
    """The end of a run that reached `limit` one second after its command began."""
    return {"code": None, "timeout": True, "limit": limit, "began": 7.0}


def test_a_test_that_ran_when_the_time_was_over_has_no_result() -> None:
    rows = [["collected", 9], *went("a", "passed", "passed"), ["start", "b", "t.py", 7.75]]
    run = printed(*rows, end=ended("processor time"))
    assert (run.suite.passed, run.suite.failed, run.suite.errors) == (("a",), (), ())
    assert run.unfinished == {"b": 0.25}
    assert run.suite.cut == CutShort(ran=1, selected=9)
    alone = printed(["start", "b", "t.py", 7.75], end=ended("run time"))
    assert (alone.per_test, alone.problem, alone.suite.failed) == (True, "", ())
    assert printed(end=ended("processor time")).suite.cut == CutShort(ran=0)


def test_a_run_whose_tests_all_ended_is_not_cut_short() -> None:
    rows = [["collected", 1], *went("a", "passed", "passed", "passed")]
    assert printed(*rows, end=ended("processor time")).suite.cut is None
    assert printed(*rows).suite.cut is None


def test_a_test_that_did_nothing_until_the_time_was_over_failed() -> None:
    run = printed(["start", "b", "t.py", 7.75], end=ended("idle"))
    assert (run.suite.failed, run.suite.errors, run.unfinished) == (("b",), ("b",), {})


def test_what_sympys_script_said_before_its_time_ran_out_counts() -> None:
    command = TestCommand(argv=("python", "bin/test"), kind="files", source="detection")
    a = "sympy/core/tests/test_a.py"
    said = {"code": None, "timeout": True, "limit": "idle"}
    sections = section("records", b"") + section("end", json.dumps(said).encode())
    output = SYMPY.partition("F\n")[0] + "F\ntest_three " + sections
    run = parse_execution(Execution(exit_code=128, output=output, seconds=1), command, MARK)
    assert run.suite.passed == (f"{a}::test_one",)
    assert run.suite.failed == (f"{a}::test_three", f"{a}::test_two")
    assert (run.suite.errors, run.ended, run.problem) == ((f"{a}::test_three",), False, "")
    busy = json.dumps({**said, "limit": "processor time"}).encode()
    output = output.partition("\n" + MARK)[0] + section("records", b"") + section("end", busy)
    run = parse_execution(Execution(exit_code=128, output=output, seconds=1), command, MARK)
    assert (run.suite.failed, run.suite.cut) == ((f"{a}::test_two",), CutShort(ran=2))


HOSTILE_ROWS: dict[str, list[object]] = {
    "a clock of 400 digits": [b'["start", "a", "t.py", 1' + b"0" * 400 + b"]"],
    "a time of 400 digits": [b'["phase", "a", "call", "passed", 1' + b"0" * 400 + b"]"],
    "a path that is no text": [["start", "a", "\ud800.py", 1.0]],
    "a function in no text": [["function", 1, 1, "\ud800", 3], ["ran", "a", 1, [1]]],
    "no number": [b'["phase", "a", "call", "failed", NaN]', b'["start", "a", "t.py", -Infinity]'],
}


@pytest.mark.parametrize("case", HOSTILE_ROWS)
def test_what_is_recorded_can_be_saved_and_read_back(case: str) -> None:
    run = printed(*HOSTILE_ROWS[case], *went("good", "passed", "passed"))
    assert TestRun.model_validate_json(run.model_dump_json()) == run
    assert "good" in run.suite.passed


BOMBS = {
    "lists": section("records", b"[" + b"[]," * 8_000_000 + b"0]"),
    "lists in a row": section("records", b'["start",' + b"[]," * 5_000_000 + b"0]"),
    "nested junit": section("junit", b"a.xml\n" + b"<a>" * 10_000_000),
    "wide junit": section("junit", b"a.xml\n<a>" + b"<b/>" * 500_000),
    "printed names": ("PASSED a" + " " * 985 + "x\n") * 1_000,
    "printed dots": ("test_a (t.T)\n" + " ... " * 200 + "\n") * 1_000,
}


@pytest.mark.parametrize("case", BOMBS)
async def test_what_a_test_sends_never_holds_up_the_event_loop(case: str) -> None:
    execution = Execution(exit_code=1, output=BOMBS[case], seconds=1)
    gc.disable()  # its time depends on all tests of the process
    try:
        loop = time.thread_time()
        run = await parse_untrusted_execution(execution, PYTEST, MARK)
        assert time.thread_time() - loop < 0.25
    finally:
        gc.enable()
    assert not run.suite.passed


async def test_a_long_record_reads_as_a_short_one() -> None:
    rows = b"\n".join(
        json.dumps(row).encode() for n in range(800) for row in went(f"t{n}", "failed")
    )
    output = section("records", rows) + section("end", b'{"code": 0}')
    execution = Execution(exit_code=0, output="x\n" * 50_000 + output, seconds=1)
    found = await parse_untrusted_execution(execution, PYTEST, MARK)
    assert found == await asyncio.to_thread(parse_execution, execution, PYTEST, MARK)
    assert len(found.suite.failed) == 800


def test_records_that_unpack_to_more_than_can_be_kept_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First what tests ran is left out, then there is no result."""
    monkeypatch.setattr("pipeline.regression.runner.MOST_KEPT", 20_000)
    ran = b'["function", 1, 1, "a.py", 1]\n' + b'["ran", "t", 1, [1]]\n' * 10_000
    passed = b'["start", "t", "a.py", 1.0]\n["phase", "t", "call", "passed", 0.1]\n'
    names = b"".join(b'["start", "%0490d", "a.py", 1.0]\n' % n for n in range(100))

    def parse(records: bytes) -> TestRun:
        output = section("records", records) + END
        question = {
            "execution": {"exit_code": 0, "output": output, "seconds": 1.0},
            "command": PYTEST.model_dump(),
            "mark": MARK,
        }
        return TestRun.model_validate_json(parse_in_process(json.dumps(question).encode()))

    run = parse(passed + ran)
    assert (run.suite.passed, run.ran, run.names) == (("t",), {}, ())
    with pytest.raises(ValueError, match=TOO_MUCH):
        parse(names)


async def test_records_that_cost_too_much_tell_no_test_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pipeline.regression.runner.PARSE_MEMORY", 100 * 1024 * 1024)
    records = b'["start",' + b"[]," * 5_000_000 + b"0]"
    output = "seen\n" + section("records", records) + END
    execution = Execution(exit_code=0, output=output, seconds=1)
    run = await parse_untrusted_execution(execution, PYTEST, MARK)
    assert (run.per_test, run.ended) == (False, False)
    assert run.suite.execution.output == "seen"
    assert run.problem == TOO_MUCH


def test_a_long_output_keeps_whole_lines_of_its_beginning_and_its_end() -> None:
    lines = ["the first line", *(f"the {n}th line of a traceback" for n in range(2000)), "9 failed"]
    kept = printed(before="\n".join(lines)).suite.execution.output.splitlines()
    assert (kept[0], kept[-1]) == (lines[0], lines[-1])
    assert [line for line in kept if line not in lines] == [
        f"[... {len(lines) - len(kept) + 1} lines left out ...]"
    ]


def test_the_parts_of_a_run_and_their_whole_use_the_processor_as_it_did() -> None:
    run = TestRun(
        suite=SuiteRun(
            execution=replace(FINE, seconds=100, cpu_seconds=10), passed=("a::x", "b::y"), failed=()
        ),
        files={"a::x": "a", "b::y": "b"},
        seconds={"a::x": 60, "b::y": 30},
        start=10,
    )
    parts = split_by_file(run, ("a", "b"))
    assert [parts[name].suite.execution.own_seconds for name in ("a", "b")] == [7, 4]
    assert join_files([*parts.values()]).suite.execution.own_seconds == 10
