"""What a repository's Python files import, and where their functions are.

Found out in a process of its own: a parser can be made to crash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from pipeline.codebase.isolated import run_alone

SECONDS = 60.0
_SCAN = """\
import ast, json, sys
files = json.load(sys.stdin)
imports, functions = {}, {}
for path, text in files.items():
    try:
        tree = ast.parse(text)
        found, spans = [], []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found += [[0, alias.name, []] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names]
                found.append([node.level, node.module or "", names])
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno] + [d.lineno for d in node.decorator_list])
                spans.append([first, node.end_lineno])
        imports[path], functions[path] = found, spans
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        pass
json.dump({"imports": imports, "functions": functions}, sys.stdout)
"""


class Scanned(BaseModel):
    """By path; files that do not parse are missing."""

    imports: dict[str, list[tuple[int, str, list[str]]]] = {}
    """The level of a relative import, the module, the names."""
    functions: dict[str, list[tuple[int, int]]] = {}
    """First line (a decorator's, if it has one) and last, from 1."""


async def scan(texts: Mapping[str, str]) -> Scanned:
    """The Python files of `texts`, by path. Nothing when the parser gives up or takes over 60 s."""
    python = {path: text for path, text in texts.items() if path.endswith((".py", ".pyi"))}
    if not python:
        return Scanned()
    output = await run_alone(_SCAN, json.dumps(python).encode(), seconds=SECONDS)
    try:
        return Scanned.model_validate_json(output)
    except ValidationError:
        return Scanned()
