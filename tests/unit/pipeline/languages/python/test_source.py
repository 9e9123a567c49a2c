"""Python source: the tests that a diff adds, tests made to fail, syntax errors."""

import difflib
import sys
from pathlib import Path

import pytest

from pipeline.languages.conventions import Conventions
from pipeline.languages.python.source import (
    build_failing_script,
    build_test_script,
    find_added_tests,
    find_syntax_errors,
)
from pipeline.languages.registry import detect_conventions
from tests.support.data.diffs import added_file
from tests.support.data.repositories import make_codebase
from tests.support.fakes import ENVIRONMENT, run_process
from tests.support.texts import texts_of

PATH = "tests/test_log.py"
TEXTS = texts_of(__file__)
OLD: str = TEXTS["OLD"]
IN_STRING: str = TEXTS["IN_STRING"]


def added(old: str, new: str, path: str = PATH) -> tuple[str, ...]:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return find_added_tests("".join(lines), path, new)


def test_functions_in_a_string_or_in_a_function_are_no_tests() -> None:
    assert added(OLD, OLD.replace("class TestLog", f"{IN_STRING}class TestLog")) == ("test_undo",)


def test_a_function_added_to_a_string_that_was_there_is_no_test() -> None:
    more = "        def test_inner():\n            pass\n"
    assert added(OLD, OLD.replace("        y = 2\n", f"        y = 2\n{more}")) == ()


def test_methods_decorated_and_asynchronous_functions_are_tests() -> None:
    method = "\n    @pytest.mark.slow\n    async def test_method(self):\n        pass\n"
    top = "@pytest.mark.skip\ndef test_top():\n    pass\n\n\n"
    new = OLD.replace("def test_old", f"{top}def test_old") + method
    assert added(OLD, new) == ("test_top", "test_method")
    guarded = OLD + "\n\nif True:\n    def test_guarded():\n        pass\n"
    assert added(OLD, guarded) == ("test_guarded",)


def test_a_text_that_the_diff_does_not_leave_holds_no_added_test() -> None:
    diff = added_file(PATH, "def test_new():\n    pass\n")
    assert find_added_tests(diff, PATH, "def test_new():\n    pass\n") == ("test_new",)
    assert find_added_tests(diff, PATH, "def test_new():\r\n    pass\r\n") == ("test_new",)
    assert find_added_tests(diff, PATH, OLD) == ()


@pytest.mark.parametrize("path", ["tests/log.test.js", "tests/test_log"])
def test_only_python_is_read(path: str) -> None:
    assert added(OLD, f"{IN_STRING}{OLD}", path) == ()


TESTS: dict[str, str] = TEXTS["TESTS"]


@pytest.fixture
async def conventions(tmp_path: Path) -> Conventions:
    files = {"tests/test_x.py": "import pytest\n\n\ndef test_x():\n    pass\n"}
    return await detect_conventions(await make_codebase(tmp_path / "repo.git", files))


async def run(text: str, folder: Path) -> int:
    folder.mkdir()
    (folder / "script.py").write_text(text)
    code, _ = await run_process([sys.executable, "script.py"], folder, 100, ENVIRONMENT)
    return code


@pytest.mark.parametrize("name", TESTS)
async def test_every_test_fails_under_its_own_name(
    tmp_path: Path, conventions: Conventions, name: str
) -> None:
    files = {"tests/test_a.py": TESTS[name].encode("latin-1"), "tests/data.txt": b"\xff"}
    script, _ = build_test_script(files, conventions)
    assert script is not None
    failing = await build_failing_script(script.text, "nonce")
    assert await run(script.text, tmp_path / "passes") == 0
    assert await run(failing, tmp_path / "fails") == 2
    assert (tmp_path / "fails/tests/data.txt").read_bytes() == b"\xff"


async def test_each_time_they_fail_with_the_nonce_that_is_asked_for(
    tmp_path: Path, conventions: Conventions
) -> None:
    script, _ = build_test_script({"tests/test_a.py": TESTS["a case"].encode()}, conventions)
    assert script is not None
    first, second, again = [
        await build_failing_script(script.text, nonce) for nonce in ("one", "two", "one")
    ]
    assert first == again != second
    for text, nonce in ((first, "one"), (second, "two")):
        assert await run(text, tmp_path / nonce) == 2
        failing = (tmp_path / nonce / "tests/test_a.py").read_text()
        assert failing.count("raise AssertionError") == 1
        assert f"raise AssertionError('{nonce}')" in failing


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sys.exit(0)",
        "given = json.loads('{}')",
        "given = json.loads(((((",
        "given = json.loads(1)",
    ],
)
async def test_other_scripts_have_none(text: str) -> None:
    assert await build_failing_script(text, "nonce") == ""


@pytest.mark.parametrize(
    ("line", "readable"),
    [("print 1", True), ("type A = list[int]", True), ("x = f'{'a'}'", True), ("x = (", False)],
)
async def test_what_only_another_python_can_read_can_fail_as_well(
    conventions: Conventions, line: str, readable: bool
) -> None:
    tests = f"def test_a():\n  {line}\n".encode()
    script, _ = build_test_script({"tests/test_a.py": tests}, conventions)
    assert script is not None
    assert bool(await build_failing_script(script.text, "nonce")) == readable


async def test_an_error_is_reported_with_its_line() -> None:
    found = await find_syntax_errors({"a.py": b"x = 1\nif x\n    y = 2\n", "b.py": b"x = 1\n"})
    assert found == {"a.py": "line 2: expected ':': if x"}


async def test_errors_that_only_a_whole_compilation_finds_are_found() -> None:
    found = await find_syntax_errors({"a.py": b"return 1\n", "b.py": b"def f():\n  nonlocal x\n"})
    assert "outside function" in found["a.py"]
    assert "nonlocal" in found["b.py"]


async def test_what_only_another_python_can_read_is_no_error() -> None:
    """`print 1` is Python 2's, a quote in an f-string 3.12's, `t""` and a bare pair 3.14's."""
    lines = (b"print 1\n", b"x = f'{'a'}'\n", b"x = t'{a}'\n", b"try: f()\nexcept A, B: pass\n")
    assert await find_syntax_errors({f"{n}.py": line for n, line in enumerate(lines)}) == {}
    assert await find_syntax_errors({"a.py": b"x = t'{a}'\nif x\n  y = 2\n"})
    assert await find_syntax_errors({"a.py": b"x = 1\n  y = 2\n"})


async def test_the_encoding_that_a_file_declares_is_obeyed() -> None:
    assert await find_syntax_errors({"a.py": b"# coding: latin-1\nx = '\xe9'\n"}) == {}
    assert await find_syntax_errors({"a.py": b"\xef\xbb\xbfx = 1\n"}) == {}
    assert "a.py" in await find_syntax_errors({"a.py": b"x = '\xe9'\n"})


async def test_other_files_are_not_looked_at() -> None:
    assert await find_syntax_errors({"a.txt": b"if x\n", "b.pyi": b"("}) == {}


async def test_text_that_brings_the_parser_down_gives_no_result_and_harms_nobody() -> None:
    hostile = {"a.py": b"-" * 900_000 + b"1\n", "b.py": b"(" * 100_000, "c.py": b"x\0y"}
    assert set(await find_syntax_errors(hostile)) <= {"a.py", "b.py", "c.py"}


async def test_warnings_are_no_errors() -> None:
    assert await find_syntax_errors({"a.py": b"x = '\\d'\ny = 1 is 1\n"}) == {}
