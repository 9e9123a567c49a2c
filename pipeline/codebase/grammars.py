"""The tree-sitter grammar of a file, and which of its nodes are comments, strings or locals."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

import tree_sitter_c
import tree_sitter_c_sharp
import tree_sitter_cpp
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_php
import tree_sitter_python
import tree_sitter_ruby
import tree_sitter_rust
import tree_sitter_typescript
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


_PYTHON = """
drop: comment
drop: expression_statement only:string
open: string_start
text: string_content
close: string_end
bound: assignment left:identifier
bound: assignment left:pattern_list identifier
bound: assignment left:tuple_pattern identifier
bound: for_statement left:identifier
bound: for_statement left:pattern_list identifier
bound: for_statement left:tuple_pattern identifier
bound: as_pattern_target identifier
bound: named_expression name:identifier
local: for_in_clause left:identifier
local: for_in_clause left:pattern_list identifier
local: for_in_clause left:tuple_pattern identifier
local: lambda_parameters identifier
kept: parameters identifier
kept: parameters default_parameter name:identifier
kept: parameters typed_parameter identifier
kept: parameters typed_default_parameter name:identifier
kept: global_statement identifier
kept: nonlocal_statement identifier
"""
_SCRIPT = """
drop: comment
text: string
text: template_string
text: regex
bound: variable_declarator name:identifier
kept: formal_parameters _
"""
_C = """
drop: comment
text: string_literal
text: char_literal
bound: init_declarator declarator:identifier
bound: declaration declarator:identifier
kept: parameter_declaration _
"""
_JAVA = """
drop: line_comment
drop: block_comment
text: string_literal
text: character_literal
local: local_variable_declaration declarator:variable_declarator name:identifier
local: enhanced_for_statement name:identifier
"""
_GO = """
drop: comment
text: interpreted_string_literal
text: raw_string_literal
text: rune_literal
local: short_var_declaration left:expression_list identifier
local: range_clause left:expression_list identifier
"""
_RUST = """
drop: line_comment
drop: block_comment
text: string_literal
text: raw_string_literal
text: char_literal
local: let_declaration pattern:identifier
local: for_expression pattern:identifier
"""
_RUBY = """
drop: comment
text: string
text: regex
text: heredoc_body
local: assignment left:identifier
"""
_CSHARP = """
drop: comment
text: string_literal
text: verbatim_string_literal
text: character_literal
local: local_declaration_statement variable_declaration variable_declarator name:identifier
"""
_PHP = """
drop: comment
text: string
text: encapsed_string
"""

_SCRIPT_SCOPES = frozenset(
    {"function_declaration", "function_expression", "method_definition", "arrow_function"}
)
_C_SCOPES = frozenset({"compound_statement"})

_Source = Callable[[], object]
_KINDS: dict[str, tuple[_Source, str, Layout, frozenset[str]]] = {
    "python": (
        tree_sitter_python.language,
        _PYTHON,
        "indented",
        frozenset({"function_definition", "lambda"}),
    ),
    "javascript": (tree_sitter_javascript.language, _SCRIPT, "lines", _SCRIPT_SCOPES),
    "typescript": (
        tree_sitter_typescript.language_typescript, _SCRIPT, "lines", _SCRIPT_SCOPES,
    ),
    "tsx": (tree_sitter_typescript.language_tsx, _SCRIPT, "lines", _SCRIPT_SCOPES),
    "c": (tree_sitter_c.language, _C, "free", _C_SCOPES),
    "cpp": (tree_sitter_cpp.language, _C, "free", _C_SCOPES),
    "java": (tree_sitter_java.language, _JAVA, "free", frozenset()),
    "go": (tree_sitter_go.language, _GO, "lines", frozenset()),
    "rust": (tree_sitter_rust.language, _RUST, "free", frozenset()),
    "ruby": (tree_sitter_ruby.language, _RUBY, "lines", frozenset()),
    "c-sharp": (tree_sitter_c_sharp.language, _CSHARP, "free", frozenset()),
    "php": (tree_sitter_php.language_php, _PHP, "free", frozenset()),
}  # fmt: skip
_SUFFIXES = {
    name: kind
    for kind, names in {
        "python": ".py .pyi .pyx .pxd",
        "javascript": ".js .jsx .mjs .cjs",
        "typescript": ".ts .mts .cts",
        "tsx": ".tsx",
        "c": ".c .h",
        "cpp": ".cc .cpp .cxx .hpp .hh .hxx",
        "java": ".java",
        "go": ".go",
        "rust": ".rs",
        "ruby": ".rb .rake",
        "c-sharp": ".cs",
        "php": ".php",
    }.items()
    for name in names.split()
}


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
    source, rules, layout, scopes = _KINDS[kind]
    language = Language(source())
    return Grammar(
        kind,
        language,
        _parse_rules(rules, language),
        layout,
        scopes,
        frozenset({"class_definition", "class_declaration", "class_body", "class_specifier"}),
    )


def _parse_rules(text: str, language: Language) -> CaptureRules:
    """The rules of `text`: one a line, `capture: kind kind …`, from the highest node down.

    Before a kind may stand the field that the node is in, or `only:`; `_` is any kind.
    """
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
