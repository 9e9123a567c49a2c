"""Turns test files from outside into one script that follows the protocol of `TestScript`."""

from __future__ import annotations

import ast
import base64
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from pipeline.codebase.conventions import Conventions, has_tests, is_runnable
from pipeline.codebase.isolated import IsolatedFailure, call_isolated
from pipeline.edits import failing_tests
from pipeline.types import TestScript

MOST_BYTES: Final = 256 * 1024
"""Bytes of all files that one script writes."""
WRITE_SECONDS: Final = 10.0
WRITE_MEMORY: Final = 512 * 1024 * 1024
_NONCE: Final = secrets.token_hex(16)
"""Stands for the nonce in failing tests that are kept; no text from outside can contain it."""
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
    name: str, text: str, conventions: Conventions, taken: frozenset[str]
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
    Empty if `text` is no such script, or a file is not Python as we know it.
    """
    given = read_given(text)
    failing = await _write_failing(given, nonce) if given else None
    return _SCRIPT.format(given=json.dumps(failing)) if failing else ""


async def make_tests_fail(path: str, text: str, nonce: str) -> bytes:
    """The test file `path` with every test in it made to fail, under its own name; empty if it is
    no test file or not Python as we know it."""
    content = base64.b64encode(text.encode("utf-8", "replace")).decode()
    failing = await _write_failing({"files": {path: content}}, nonce)
    return base64.b64decode(failing["files"][path]) if failing else b""


async def _write_failing(given: Mapping[str, Any], nonce: str) -> dict[str, Any] | None:
    files: Mapping[str, str] = given["files"]
    tests = [path for path, data in files.items() if _is_test_file(path, base64.b64decode(data))]
    question = json.dumps({"given": given, "tests": tests, "nonce": _NONCE}).encode()
    try:
        answer = await call_isolated(
            failing_tests.__name__,
            failing_tests.write_failing_tests.__name__,
            question,
            seconds=WRITE_SECONDS,
            memory=WRITE_MEMORY,
            keep=True,  # each edit that runs with the same tests asks again
        )
    except IsolatedFailure:
        return None
    failing: dict[str, Any] = json.loads(answer)
    for path in tests:
        content = base64.b64decode(failing["files"][path]).replace(_NONCE.encode(), nonce.encode())
        failing["files"][path] = base64.b64encode(content).decode()
    return failing


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
