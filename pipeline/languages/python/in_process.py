"""Reads Python code that nobody trusts.

Runs in a process of its own, and imports only the standard library: our other modules would take it
many times as long as its work.
"""

from __future__ import annotations

import ast
import json


def check_syntax(data: bytes) -> bytes:
    """From a JSON object of texts by path to one of the errors of those that do not parse.

    The texts are bytes read as Latin-1, so that Python sees their declared encoding.
    """
    found: dict[str, str] = {}
    for path, text in json.loads(data).items():
        try:
            compile(text.encode("latin-1"), path, "exec", dont_inherit=True)
        except SyntaxError as error:
            line = (error.text or "").strip()[:200]
            found[path] = f"line {error.lineno}: {error.msg}" + (f": {line}" if line else "")
        except (ValueError, RecursionError, MemoryError, OverflowError):
            pass
    return json.dumps(found).encode()


def scan_code(data: bytes) -> bytes:
    """From a JSON object of texts by path to the imports and functions of those that parse."""
    imports: dict[str, list[tuple[int, str, list[str]]]] = {}
    functions: dict[str, list[tuple[int, int]]] = {}
    for path, text in json.loads(data).items():
        try:
            nodes = list(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            continue
        imports[path], functions[path] = [], []
        for node in nodes:
            if isinstance(node, ast.Import):
                imports[path] += [(0, alias.name, []) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [alias.name for alias in node.names]
                imports[path].append((node.level, node.module or "", names))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                functions[path].append((first, node.end_lineno or node.lineno))
    return json.dumps({"imports": imports, "functions": functions}).encode()
