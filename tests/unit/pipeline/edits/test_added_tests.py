"""Which tests a diff adds: those that a runner finds in the file that it leaves."""

from __future__ import annotations

import difflib

import pytest

from pipeline.languages.python.source import find_added_tests

PATH = "tests/test_log.py"
OLD = '''\
import pytest


def test_old(testdir):
    testdir.makepyfile(
        """
        x = 1
        y = 2
        z = 3
        z = 4
    """
    )


class TestLog:
    def test_level(self):
        assert True
'''
IN_STRING = '''\
def test_undo(testdir):
    testdir.makepyfile(
        """
        def test1(caplog):
            pass

        def test2(caplog):
            pass
    """
    )
    def test_within():
        pass
    test_within()


'''


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
    diff = f"--- /dev/null\n+++ b/{PATH}\n@@ -0,0 +1,2 @@\n+def test_new():\n+    pass\n"
    assert find_added_tests(diff, PATH, "def test_new():\n    pass\n") == ("test_new",)
    assert find_added_tests(diff, PATH, "def test_new():\r\n    pass\r\n") == ("test_new",)
    assert find_added_tests(diff, PATH, OLD) == ()


@pytest.mark.parametrize("path", ["tests/log.test.js", "tests/test_log"])
def test_only_python_is_read(path: str) -> None:
    assert added(OLD, f"{IN_STRING}{OLD}", path) == ()
