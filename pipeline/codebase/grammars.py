"""The tree-sitter grammar of a file, and which of its nodes are comments, strings or locals."""

import json
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, NamedTuple

from tree_sitter import Language, Parser, Point, Tree

PARSE_SECONDS: Final = 1.0
"""Of processor time for one file. A megabyte of code takes a tenth of that; what is not code can
take minutes."""
_PIECE: Final = 64 * 1024
Layout = Literal["indented", "lines", "free"]
"""Whether indentation has meaning, only line ends do, or neither."""


class Step(NamedTuple):
    """What one node on the way to a captured node must be."""

    kind: int | None
    """The number of its kind; None for any that has a name."""
    field: int | None
    """The number of its field in the node above; None for any."""
    only: bool
    """Whether the node above must have no other child with a name."""


class Rule(NamedTuple):
    """Captures a node by its kind and those of the nodes right above it."""

    capture: str
    """`drop` (comments, docstrings), `text` (strings; `open` and `close` are their ends), `bound`
    (binds a variable), `local` (a name that is local anywhere), `kept` (a parameter or a global:
    part of an interface)."""
    steps: tuple[Step, ...]
    """From the node itself upwards."""


class CaptureRules(NamedTuple):
    by_kind: Mapping[int, tuple[Rule, ...]]
    """The rules by the kind of the node that they capture."""
    by_parent: Mapping[int, tuple[Rule, ...]]
    """Those that capture a node of any kind, by the kind of the node above."""


@dataclass(frozen=True)
class Grammar:
    name: str
    language: Language
    rules: CaptureRules = field(compare=False)
    layout: Layout
    scopes: frozenset[str]
    """Kinds of nodes in which a bound name is local."""
    members: frozenset[str]
    """Kinds of nodes in which a bound name belongs to a class."""


_TABLE: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("grammars.toml").read_text("utf-8")
)
_SUFFIXES = {end: kind for kind, row in _TABLE.items() for end in row["suffixes"].split()}


def grammar_of(path: str) -> Grammar | None:
    """The grammar for a file with this name; None if there is none."""
    kind = _SUFFIXES.get(PurePosixPath(path).suffix.lower())
    return _grammar(kind) if kind else None


def parse_code(grammar: Grammar, data: bytes) -> Tree | None:
    """The tree of `data`, which is UTF-8; None if that takes longer than `PARSE_SECONDS`.

    Other threads run at times: tree-sitter holds the interpreter's lock but for the callbacks.
    """
    end = time.thread_time() + PARSE_SECONDS

    def read(at: int, _: Point) -> bytes:
        return data[at : at + _PIECE]

    def is_late(_at: int, _has_error: bool) -> bool:
        return time.thread_time() > end

    try:
        return Parser(grammar.language).parse(read, progress_callback=is_late)
    except ValueError:  # the callback ended it
        return None


def find_errors(data: bytes) -> bytes:
    """From a JSON object of texts by path to one of those with errors: the first of each, by its
    line. For a process of its own."""
    found: dict[str, str] = {}
    for path, text in json.loads(data).items():
        grammar = grammar_of(path)
        tree = parse_code(grammar, text.encode("utf-8", "replace")) if grammar else None
        node = tree.root_node if tree and tree.root_node.has_error else None
        while node and not (node.is_error or node.is_missing):
            node = next((child for child in node.children if child.has_error), None)
        if node:
            line = text.split("\n")[node.start_point.row]
            found[path] = f"line {node.start_point.row + 1}: {line.strip()[:200]}"
    return json.dumps(found).encode()


@cache
def _grammar(kind: str) -> Grammar:
    row = _TABLE[kind]
    package, function = import_module(row["package"]), row.get("function", "language")
    source: Callable[[], object] = getattr(package, function)
    language = Language(source())
    row = _TABLE[row.get("like", kind)]
    return Grammar(
        kind,
        language,
        _parse_rules(row["rules"], language),
        row["layout"],
        frozenset(row.get("scopes", ())),
        frozenset({"class_definition", "class_declaration", "class_body", "class_specifier"}),
    )


def _parse_rules(text: str, language: Language) -> CaptureRules:
    """The rules of `text`, as `grammars.toml` writes them."""
    by_kind: dict[int, tuple[Rule, ...]] = {}
    by_parent: dict[int, tuple[Rule, ...]] = {}
    for line in text.split("\n"):
        capture, _, path = line.partition(": ")
        if not path:
            continue
        rule = Rule(capture, tuple(_parse_step(step, language) for step in path.split()[::-1]))
        kind, above = rule.steps[0].kind, rule.steps[1].kind if len(rule.steps) > 1 else None
        if kind is not None:
            by_kind[kind] = (*by_kind.get(kind, ()), rule)
        elif above is not None:
            by_parent[above] = (*by_parent.get(above, ()), rule)
    return CaptureRules(by_kind, by_parent)


def _parse_step(text: str, language: Language) -> Step:
    field, _, name = text.rpartition(":")
    kind = None if name == "_" else language.id_for_node_kind(name, True)
    if field in ("", "only"):
        return Step(kind, None, field == "only")
    return Step(kind, language.field_id_for_name(field), False)
