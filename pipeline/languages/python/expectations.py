"""Changes what a script expects: code that computes its results cannot know the new value.

Runs in a process of its own, and imports only the standard library.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from typing import Any, TypeGuard

_ASSERTIONS = frozenset({"assertEqual", "assertEquals"})


def change_expectations(data: bytes) -> bytes:
    """From JSON (`text`, `nonce`) to JSON: `text` with a fresh value for each literal that it
    compares by equality, and with an object that equals nothing; empty if there is none.

    Raises:
        SyntaxError: it is not Python of this version.
    """
    question: dict[str, Any] = json.loads(data)
    nonce = str(question["nonce"])
    changed = _Changed(lambda value: ast.Constant(_find_fresh(value, nonce)))
    equal_to_none = _Changed(lambda _: ast.parse("object()", mode="eval").body)
    made = [_unparse(each, question["text"]) for each in (changed, equal_to_none)]
    return json.dumps(made).encode() if changed.count else b""


def _unparse(change: _Changed, text: str) -> str:
    return ast.unparse(ast.fix_missing_locations(change.visit(ast.parse(text))))


def _find_fresh(value: object, nonce: str) -> int | float | bytes | str:
    """Of the kind of `value`, so that code that looks for its kind finds it."""
    number = int(nonce[:8], 16)
    match value:
        case int():
            return number
        case float():
            return number + 0.5
        case bytes():
            return nonce.encode()
        case _:
            return nonce


class _Changed(ast.NodeTransformer):
    def __init__(self, replace: Callable[[object], ast.expr]) -> None:
        self._replace = replace
        self.count = 0

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        if all(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops):
            node.left, *node.comparators = self._change(sides)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _ASSERTIONS:
            node.args[:2] = self._change(node.args[:2])
        return node

    def _change(self, sides: list[ast.expr]) -> list[ast.expr]:
        values = [side for side in sides if _is_value(side)]
        named = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
        if len(values) == len(sides) or named:
            return sides
        self.count += len(values)
        return [self._replace(side.value) if _is_value(side) else side for side in sides]


def _is_value(side: ast.expr) -> TypeGuard[ast.Constant]:
    """A literal of a kind that has many values."""
    return isinstance(side, ast.Constant) and type(side.value) in (int, float, str, bytes)
