"""Single faults in lines of code, found by the grammar of its language in a process of its own.

That process imports nothing else: each call starts one.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tree_sitter import Node, Tree

from pipeline.codebase.grammars import Grammar, grammar_of, parse_code


class _Swap(NamedTuple):
    within: re.Pattern[str]
    """What the kind of the node around the token holds."""
    tokens: Mapping[str, str]


_OPERATION = re.compile("binary|comparison|boolean")
_ASSIGNMENT = re.compile("assign")
_SWAPS: Final = (
    _Swap(_OPERATION, {"==": "!=", "!=": "==", "===": "!==", "!==": "==="}),
    _Swap(re.compile("unary|not_op"), {"!": "", "not": ""}),
    _Swap(_OPERATION, {"is not": "is", "not in": "in"}),
    _Swap(_OPERATION, {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}),
    _Swap(_OPERATION, {"and": "or", "or": "and", "&&": "||", "||": "&&"}),
    _Swap(re.compile(""), {"true": "false", "false": "true", "True": "False", "False": "True"}),
    _Swap(_OPERATION, {"+": "-", "-": "+"}),
    _Swap(_ASSIGNMENT, {"+=": "-=", "-=": "+="}),
)
"""Which tokens become others. They keep the types, so that what is compiled still compiles."""
_LITERAL = re.compile(
    r"^(true|false|boolean|number|((decimal_)?integer|int|number)(_literal)?|is not|not in)\b"
)
_STRING = re.compile("string|char")
_ENDS = re.compile("return(_statement|_expression)?$")
_RETURN, _CONDITION, _NUMBER = range(len(_SWAPS), len(_SWAPS) + 3)


class _Fault(NamedTuple):
    row: int
    rank: int
    """Makes the lowest of several on one line."""
    start: int
    """The first byte in its line, and the last."""
    end: int
    there: str
    """What stands there instead."""


def find_faults(data: bytes) -> bytes:
    """From JSON of paths, texts and words of languages to one of faults: their row, first and last
    byte in it, and what stands there instead; one a line at most. For a process of its own."""
    found: list[list[tuple[int, int, int, str]]] = []
    for path, text, opening, nothing, untrue in json.loads(data):
        grammar = grammar_of(path)
        assert grammar
        best: dict[int, _Fault] = {}
        # The first line, of the hunk's header, is empty.
        for part in {text, opening + text}:
            tree = parse_code(grammar, part.encode("utf-8", "surrogatepass"))
            for fault in _list_faults(tree, grammar, nothing, untrue) if tree else ():
                best[fault.row] = min(fault, best.get(fault.row, fault))
        found.append([(one.row, one.start, one.end, one.there) for _, one in sorted(best.items())])
    return json.dumps(found).encode()


def _list_faults(tree: Tree, grammar: Grammar, nothing: str, untrue: str) -> Iterator[_Fault]:
    opaque = {
        kind
        for kind, rules in grammar.rules.by_kind.items()
        if any(rule.capture in ("drop", "text") and len(rule.steps) == 1 for rule in rules)
    }
    waiting = [(tree.root_node, tree.root_node)]
    while waiting:
        node, around = waiting.pop()
        if node.kind_id in opaque:
            continue
        waiting += [(child, node) for child in node.children]
        made = (_swap(node, around), _empty(node, nothing), _turn(node, untrue))
        yield from filter(None, made)


def _swap(node: Node, around: Node) -> _Fault | None:
    """The fault of one token."""
    if node.is_named and not _LITERAL.search(node.type):
        return None
    token = _read(node)
    if node.is_named and token.isdecimal() and len(token) < 10:
        return _replace(node, _NUMBER, str(int(token) + 1))
    for rank, swap in enumerate(_SWAPS):
        if token in swap.tokens and swap.within.search(around.type):
            joined = token.startswith("+") and any(_STRING.search(n.type) for n in around.children)
            return None if joined else _replace(node, rank, swap.tokens[token])
    return None


def _empty(node: Node, nothing: str) -> _Fault | None:
    """The fault of a function's end, in a language in which `nothing` fits every function."""
    values = [child for child in node.children[1:] if child.type != ";"]
    if not nothing or not values or not _ENDS.match(node.type) or not node.is_named:
        return None
    return _replace(values[0], _RETURN, nothing, values[-1])


def _turn(node: Node, untrue: str) -> _Fault | None:
    """The fault of a condition: its contrary, or what is never true."""
    condition = node.child_by_field_name("condition") if node.type.startswith("if") else None
    if condition is None or condition.type.startswith("let"):
        return None
    text = _read(condition)
    contrary = f"(!{text})" if text.startswith("(") and text.endswith(")") else f"!({text})"
    return _replace(condition, _CONDITION, untrue or contrary)


def _read(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _replace(node: Node, rank: int, there: str, last: Node | None = None) -> _Fault | None:
    end = (last or node).end_point
    if end.row != node.start_point.row:
        return None
    return _Fault(node.start_point.row, rank, node.start_point.column, end.column, there)
