"""The tree-sitter grammar of a file, and which of its nodes are comments, strings or locals."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Final, Literal

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
from tree_sitter import Language, Parser, Point, Query, Tree

PARSE_SECONDS: Final = 1.0
"""Of processor time for one file. A megabyte of code takes a tenth of that; what is not code can
take minutes."""
_PIECE: Final = 64 * 1024
Layout = Literal["indented", "lines", "free"]
"""Whether indentation has meaning, only line ends do, or neither."""


@dataclass(frozen=True)
class Grammar:
    """One language. Captures of `query`: `drop` (comments, docstrings), `text` (strings), `bound`
    (binds a variable), `local` (a name that is local anywhere), `kept` (a parameter or a global:
    part of an interface)."""

    name: str
    language: Language
    query: Query
    layout: Layout
    scopes: frozenset[str]
    """Kinds of nodes in which a bound name is local."""
    members: frozenset[str]
    """Kinds of nodes in which a bound name belongs to a class."""


_PYTHON = """
(comment) @drop
(expression_statement . (string) @drop .)
(string_start) @open (string_content) @text (string_end) @close
(assignment left: [(identifier) @bound (pattern_list (identifier) @bound)
                   (tuple_pattern (identifier) @bound)])
(for_statement left: [(identifier) @bound (pattern_list (identifier) @bound)
                      (tuple_pattern (identifier) @bound)])
(as_pattern_target (identifier) @bound)
(named_expression name: (identifier) @bound)
(for_in_clause left: [(identifier) @local (pattern_list (identifier) @local)
                      (tuple_pattern (identifier) @local)])
(lambda_parameters (identifier) @local)
(parameters [(identifier) @kept (default_parameter name: (identifier) @kept)
             (typed_parameter (identifier) @kept)
             (typed_default_parameter name: (identifier) @kept)])
(global_statement (identifier) @kept)
(nonlocal_statement (identifier) @kept)
"""
_SCRIPT = """
(comment) @drop
(string) @text (template_string) @text (regex) @text
(variable_declarator name: (identifier) @bound)
(formal_parameters (_) @kept)
"""
_C = """
(comment) @drop
(string_literal) @text (char_literal) @text
(init_declarator declarator: (identifier) @bound)
(declaration declarator: (identifier) @bound)
(parameter_declaration (_) @kept)
"""
_JAVA = """
(line_comment) @drop (block_comment) @drop
(string_literal) @text (character_literal) @text
(local_variable_declaration declarator: (variable_declarator name: (identifier) @local))
(enhanced_for_statement name: (identifier) @local)
"""
_GO = """
(comment) @drop
(interpreted_string_literal) @text (raw_string_literal) @text (rune_literal) @text
(short_var_declaration left: (expression_list (identifier) @local))
(range_clause left: (expression_list (identifier) @local))
"""
_RUST = """
(line_comment) @drop (block_comment) @drop
(string_literal) @text (raw_string_literal) @text (char_literal) @text
(let_declaration pattern: (identifier) @local)
(for_expression pattern: (identifier) @local)
"""
_RUBY = """
(comment) @drop
(string) @text (regex) @text (heredoc_body) @text
(assignment left: (identifier) @local)
"""
_CSHARP = """
(comment) @drop
(string_literal) @text (verbatim_string_literal) @text (character_literal) @text
(local_declaration_statement
  (variable_declaration (variable_declarator name: (identifier) @local)))
"""
_PHP = """
(comment) @drop
(string) @text (encapsed_string) @text
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
_MEMBERS = frozenset({"class_definition", "class_declaration", "class_body", "class_specifier"})
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


@cache
def _grammar(kind: str) -> Grammar:
    source, query, layout, scopes = _KINDS[kind]
    language = Language(source())
    return Grammar(kind, language, Query(language, query), layout, scopes, _MEMBERS)
