"""Python source: whether it parses, how to spoil it, the tests that an edit adds."""

import ast
import asyncio
import base64
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from pipeline.codebase.grammars import grammar_of, parse_code
from pipeline.codebase.isolated import call_isolated
from pipeline.codebase.unified_diff import FileDiff, parse_diff
from pipeline.data.types import TestScript
from pipeline.languages.conventions import Conventions
from pipeline.languages.python.conventions import has_tests, is_runnable
from pipeline.languages.python.expectations import change_expectations
from pipeline.languages.python.failing_tests import (
    list_functions,
    make_failing,
    parse_python,
    read_name,
)
from pipeline.languages.python.in_process import check_syntax

SECONDS = 20.0
_ERRORS = TypeAdapter(dict[str, tuple[bool, str]])


async def find_syntax_errors(files: Mapping[str, bytes]) -> dict[str, str]:
    """Find the Python files that do not parse, each with the line and this Python's message.

    Syntax that only a newer Python knows, or Python 2, is no error: tree-sitter reads both.
    `files` are contents by path; those that are not `.py` are ignored. Empty if there is no result:
    the parser crashed or took longer than 20 s.
    """
    python = {path: data.decode("latin-1") for path, data in files.items() if path.endswith(".py")}
    if not python:
        return {}
    output = await call_isolated(check_syntax, json.dumps(python).encode(), seconds=SECONDS)
    found = _ERRORS.validate_json(output) if output else {}
    newer = {path for path, (certain, _) in found.items()
             if not certain and await asyncio.to_thread(parse_python, files[path])}  # fmt: skip
    return {path: sentence for path, (_, sentence) in found.items() if path not in newer}


def find_added_tests(diff: str, path: str, text: str) -> tuple[str, ...]:
    """The names of the test functions and methods that `diff` adds to `path`, whose new content is
    `text`.

    Code in a string is not a test, nor is a function within a function: no runner finds them. Empty
    if `text` is not what `diff` leaves.
    """
    grammar = grammar_of(path)
    if grammar is None or grammar.name != "python":
        return ()
    lines = [line.rstrip("\r") for line in text.split("\n")]
    files = [file for file in parse_diff(diff) if file.new == path]
    added = {at for file in files for at, line in _list_added(file) if lines[at : at + 1] == [line]}
    tree = parse_code(grammar, text.encode("utf-8", "replace")) if added else None
    if tree is None:
        return ()
    functions = (node for node in list_functions(tree.root_node) if node.start_point.row in added)
    names = (read_name(node) for node in functions)
    return tuple(dict.fromkeys(name for name in names if name.startswith("test")))


def _list_added(file: FileDiff) -> Iterator[tuple[int, str]]:
    """The lines that are new, each with its place in the new file, from 0."""
    shift = 0
    for hunk in file.hunks:
        # A hunk without old lines names the line before it.
        has_old = any(marker != "+" for marker, _ in hunk.lines)
        at = hunk.start - has_old + shift
        for marker, line in hunk.lines:
            if marker == "+":
                yield at, line
            at += marker != "-"
            shift += {"+": 1, "-": -1}.get(marker, 0)


MOST_BYTES: Final = 256 * 1024
"""Bytes of all files that one script writes."""
_EXITS: Final = re.compile(r"\bexit\(|\bSystemExit\b")
_GIVEN: Final = re.compile(r"^given = json\.loads\((.*)\)$", re.MULTILINE)
_SCRIPT: Final = '''\
"""Writes test files into the checkout and runs them.

Exit code 0 when they pass, 2 when one fails, 3 when they could not be run.
"""
import base64
import json
import os
import subprocess
import sys

given = json.loads({given!r})
for path, content in given["files"].items():
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if os.path.islink(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.write(base64.b64decode(content))
ended = subprocess.run([sys.executable, *given["command"]]).returncode
sys.exit({{0: 0, 1: 2}}.get(ended, 3))
'''


def build_test_script(
    files: Mapping[str, bytes], conventions: Conventions
) -> tuple[TestScript | None, str]:
    """Build a script that runs the Python tests in `files`, with the other files beside them.

    Without Python tests, or if they are too large: None, and the reason.
    """
    run = [path for path, data in sorted(files.items()) if _is_test_file(path, data)]
    if not run:
        return None, ""
    if sum(map(len, files.values())) > MOST_BYTES:
        return None, f"its tests are larger than {MOST_BYTES // 1024} KiB, and were not run."
    command = (*conventions.command_for(run[0])[1:], *run[1:])
    given = {
        "command": command,
        "files": {p: base64.b64encode(data).decode() for p, data in sorted(files.items())},
    }
    return TestScript(text=_SCRIPT.format(given=json.dumps(given))), ""


def to_test_script(
    name: str, text: str, conventions: Conventions, taken: Collection[str]
) -> TestScript:
    """Return a script unchanged; turn a test file into a script that runs it among the
    repository's.

    A script ends with an exit code of its own; other text that contains tests is a test file.
    """
    if _EXITS.search(text) or not has_tests(text):
        return TestScript(text=text)
    path = conventions.fresh_path(name.removeprefix("test_"), taken)
    script, _ = build_test_script({path: text.encode("utf-8", "replace")}, conventions)
    return script or TestScript(text=text)


async def build_failing_script(text: str, nonce: str) -> str:
    """Build a script of `build_test_script` anew with every test in it made to fail.

    Files and tests keep their names, so code that runs with them cannot tell which of both runs.
    Empty if `text` is no such script, or no Python can read a file.
    """
    given = read_given(text)
    failing = await _write_failing(given, nonce) if given else None
    return _SCRIPT.format(given=json.dumps(failing)) if failing else ""


async def change_script(text: str, nonce: str) -> tuple[str, str] | None:
    """See `Language.change_expectations`."""
    return await asyncio.to_thread(change_expectations, text, nonce)


async def make_tests_fail(path: str, text: str, nonce: str) -> bytes:
    """The test file `path` with every test in it made to fail, under its own name; empty if it is
    no test file or no Python can read it."""
    content = base64.b64encode(text.encode("utf-8", "replace")).decode()
    failing = await _write_failing({"files": {path: content}}, nonce)
    return base64.b64decode(failing["files"][path]) if failing else b""


async def _write_failing(given: Mapping[str, Any], nonce: str) -> dict[str, Any] | None:
    files: dict[str, str] = dict(given["files"])
    for path, data in files.items():
        content = base64.b64decode(data)
        if _is_test_file(path, content):
            failing = await asyncio.to_thread(make_failing, content, nonce)
            if failing is None:
                return None
            files[path] = base64.b64encode(failing).decode()
    return {**given, "files": files}


def read_given(text: str) -> dict[str, Any] | None:
    """What a script of `build_test_script` writes and runs; None for any other script."""
    match = _GIVEN.search(text)
    if not match:
        return None
    try:
        given = ast.literal_eval(match[1])
        parsed: dict[str, Any] = json.loads(given)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return parsed if text == _SCRIPT.format(given=given) else None


def _is_test_file(path: str, data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    return is_runnable(path) and has_tests(text)


_HEAD = '''"""Runs the script that reproduces the issue: it exits with 0 when the issue is fixed."""

import subprocess
import sys
{imports}
SCRIPT = "\\n".join(
    [
{lines}
    ]
)

'''
_PYTEST = """
def test_{name}():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    assert run.returncode == 0, run.stdout
"""
_UNITTEST = """
class {case}(unittest.TestCase):
    def test_{name}(self):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        self.assertEqual(run.returncode, 0, run.stdout)
"""
WRAPPED_TEST_CLASS = "ReproductionTest"


def wrap_script(script: TestScript, style: str, words: str) -> str:
    """The text of a test file that runs `script`; `words` (untrusted) name its one test."""
    lines = "\n".join(f"        {line!r}," for line in script.text.split("\n"))
    name = "_".join(re.findall(r"[a-z0-9]+", words.lower())[:6])[:48].strip("_") or "issue"
    if style == "pytest":
        return _HEAD.format(imports="", lines=lines) + _PYTEST.format(name=name)
    test = _UNITTEST.format(name=name, case=WRAPPED_TEST_CLASS)
    return _HEAD.format(imports="import unittest\n", lines=lines) + test
