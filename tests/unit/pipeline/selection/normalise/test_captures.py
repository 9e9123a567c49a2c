"""What a grammar's rules capture is found in a time that grows with the code, whatever it is."""

from __future__ import annotations

import time

import pytest

from pipeline.codebase.grammars import grammar_of, parse_code
from pipeline.selection.scoring.lexing import Capture, find_captures

CODE = """\
def f(a, b=1, *, c: int = 2):
    "text"
    x, y = a
    for z in [q for q in b]:
        global w
    return lambda v: v
class A:
    x = "text"
    def g(self): k = 1; return k
"""
SHAPES = {"-": "a.py", "(": "a.py", "lambda a:": "a.py", "*": "a.c", "!": "a.java", "{": "a.js"}


def captures_of(text: str, path: str) -> list[Capture]:
    grammar = grammar_of(path)
    assert grammar is not None
    tree = parse_code(grammar, text.encode())
    assert tree is not None
    return find_captures(tree, grammar)


def test_names_comments_and_texts_are_captured_with_their_scope() -> None:
    found = {(one.name, CODE[one.start : one.end], one.scope) for one in captures_of(CODE, "a.py")}
    assert {(text, scope) for name, text, scope in found if name == "bound"} == {
        *(("x", "scope"), ("y", "scope"), ("z", "scope"), ("x", "members"), ("k", "scope")),
    }
    assert {text for name, text, _ in found if name == "local"} == {"q", "v"}
    assert {text for name, text, _ in found if name == "kept"} == {"a", "b", "c", "w", "self"}
    assert {text for name, text, _ in found if name == "drop"} == {'"text"'}


def test_the_first_column_of_a_line_is_that_of_the_outermost_node_on_it() -> None:
    bound = [one for one in captures_of("  x = (y := 1)\n", "a.py") if one.name == "bound"]
    assert [one.column for one in bound] == [2, 2]


@pytest.mark.parametrize("unit", SHAPES)
def test_time_grows_with_the_code_and_not_with_its_square(unit: str) -> None:
    """tree-sitter's queries took 16 times as long for four times as many operators."""

    def measure(count: int) -> float:
        best = 60.0
        for _ in range(3):
            began = time.thread_time()
            captures_of(unit * count, SHAPES[unit])
            best = min(best, time.thread_time() - began)
        return best

    assert measure(12_000) < 10 * measure(3_000)
