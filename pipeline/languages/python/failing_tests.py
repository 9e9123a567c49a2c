"""Makes tests fail under their own names.

Runs in a process of its own, and imports only the standard library: our other modules would take it
many times as long as its work.
"""

from __future__ import annotations

import ast
import base64
import json
from typing import Any


def write_failing_tests(data: bytes) -> bytes:
    """Make the tests of a script's files `tests` fail, from JSON to JSON.

    Raises:
        SyntaxError: a file is not Python of this version.
    """
    question: dict[str, Any] = json.loads(data)
    given = question["given"]
    for path in question["tests"]:
        source = base64.b64decode(given["files"][path])
        failing = ast.unparse(_Failing(question["nonce"]).visit(ast.parse(source)))
        given["files"][path] = base64.b64encode(failing.encode("utf-8", "replace")).decode()
    return json.dumps(given).encode()


class _Failing(ast.NodeTransformer):
    """Makes every test raise when it has run, however it ends."""

    def __init__(self, nonce: str) -> None:
        self._fail = ast.parse(f"raise AssertionError({nonce!r})").body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._fail_at_end(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._fail_at_end(node)

    def _fail_at_end(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if node.name.startswith("test"):
            node.body = [ast.Try(body=node.body, handlers=[], orelse=[], finalbody=self._fail)]
        return ast.fix_missing_locations(node)
