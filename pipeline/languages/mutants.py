"""Versions of an edit with one thing wrong, by the grammar of each file's language."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import TypeAdapter
from tree_sitter import Node, Tree

from pipeline.codebase.grammars import Grammar, grammar_of, parse_code
from pipeline.codebase.isolated import call_isolated
from pipeline.codebase.unified_diff import parse_diff
from pipeline.languages.conventions import is_test
from pipeline.languages.registry import language_of

MOST_MUTANTS: Final = 4
_FAULTS: Final = TypeAdapter(list[list[tuple[int, int, int, str]]])
_SECONDS: Final = 20.0
_FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(r"^(?=@@ -)", re.MULTILINE)


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


async def spoil(diff: str) -> tuple[str, ...]:
    """At most `MOST_MUTANTS` versions of a diff by git, each with one thing wrong.

    A line of code that it adds is changed, or one of its several hunks of code is missing. Its
    tests, which a script never runs, stay as they are. Empty if nothing can be spoilt this way. A
    version may not apply.
    """
    parts = [_HUNK.split(file) for file in _FILE.split(diff)]
    found = [*await _with_spoilt_lines(parts), *_without_hunks(parts)]
    distinct = [one for one in dict.fromkeys(found) if one != diff]
    step = max(1, len(distinct) // MOST_MUTANTS)
    return tuple(distinct[::step][:MOST_MUTANTS])


async def _with_spoilt_lines(parts: Sequence[Sequence[str]]) -> list[str]:
    code = [
        (file, hunk, path)
        for file, (head, *hunks) in enumerate(parts)
        if (path := _find_code(head))
        for hunk in range(1, len(hunks) + 1)
    ]
    asked: list[tuple[str, str, str, str, str]] = []
    for file, hunk, path in code:
        facts = language_of(path).facts
        text = "\n".join(
            line[1:] if line[:1] in "+ " else "" for line in parts[file][hunk].split("\n")
        )
        asked.append((path, text, facts.opening, facts.nothing, facts.untrue))
    answer = await call_isolated(find_faults, json.dumps(asked).encode(), seconds=_SECONDS)
    made: list[str] = []
    for (file, hunk, _), faults in zip(code, _FAULTS.validate_json(answer or b"[]"), strict=False):
        lines = parts[file][hunk].split("\n")
        for row, start, end, there in faults:
            if lines[row].startswith("+"):
                data = lines[row][1:].encode("utf-8", "surrogatepass")
                spoilt = data[:start] + there.encode() + data[end:]
                line = "+" + spoilt.decode("utf-8", "surrogatepass")
                changed = "\n".join([*lines[:row], line, *lines[row + 1 :]])
                made.append(
                    _join(parts, file, [*parts[file][:hunk], changed, *parts[file][hunk + 1 :]])
                )
    return made


def _without_hunks(parts: Sequence[Sequence[str]]) -> Iterator[str]:
    code = [at for at, (head, *_) in enumerate(parts) if _find_code(head)]
    if sum(len(parts[at]) - 1 for at in code) < 2:
        return
    for at in code:
        for hunk in range(1, len(parts[at])):
            kept = [*parts[at][:hunk], *parts[at][hunk + 1 :]]
            # A file's head alone is no diff.
            yield _join(parts, at, kept if len(kept) > 1 else [])


def _join(parts: Sequence[Sequence[str]], at: int, there: Iterable[str]) -> str:
    return "".join("".join(there if n == at else part) for n, part in enumerate(parts))


def _find_code(head: str) -> str:
    """The new path in a file's head, if it is code with a grammar, and no test; else empty."""
    path = next((file.new or "" for file in parse_diff(head)), "")
    is_code = language_of(path).is_source(path) and grammar_of(path) and not is_test(path)
    return path if is_code else ""


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
