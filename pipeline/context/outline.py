"""Where the definitions of a file start, how deeply they are nested, and their headers."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from tree_sitter import Node

from pipeline.codebase.grammars import Grammar, grammar_of, parse_code
from pipeline.codebase.isolated import READER

_DEFINITIONS = re.compile(
    r"(function|method|class|interface|enum|struct|trait|impl|module|mod|namespace|type|record|"
    r"constructor|decorated|template|export|package|singleton)"
    r"(_item|_definition|_declaration|_specifier|_statement|_method|_signature)?"
)
_CONTAINERS = re.compile(
    r".*(body|block|list|program|module|source_file|translation_unit|statement)"
)
_MOST_HEADS = 4
_LONGEST_HEAD = 160
"""Characters."""
MOST_WITHIN = _MOST_HEADS * (_LONGEST_HEAD + len(" ...\n"))


@dataclass(frozen=True)
class Definition:
    """A definition with a body. Lines are counted from 0."""

    first: int
    last: int
    head: str
    """The text before the body, such as `class A(B):`, clipped."""
    body: int
    """The line on which its body begins."""


@dataclass(frozen=True)
class Outline:
    """The definitions of one file; empty if no grammar reads it."""

    starts: dict[int, int] = field(default_factory=dict[int, int])
    """The lines (from 0) where a definition starts, with its depth: 0 for the outermost.

    Decorators and comments right above belong to it."""
    definitions: list[Definition] = field(default_factory=list[Definition])

    def heads_at(self, row: int) -> str:
        """The headers of the definitions around line `row`, outermost first, a line each.

        Cut from the outside to at most `MOST_WITHIN` characters."""
        around = [scope for scope in self.definitions if scope.first < row <= scope.last]
        around.sort(key=lambda scope: (scope.first, -scope.last))
        heads = [f"{scope.head}\n" for scope in around[-_MOST_HEADS:]]
        return "".join(heads)


def outline_of(path: str, text: str) -> Outline:
    """The outline of a file, by the grammar for its name; empty if it costs too much to parse."""
    if grammar_of(path) is None:
        return Outline()
    answer = READER.call(outline_in_process, json.dumps([path, text]).encode())
    if answer is None:
        return Outline()
    starts, definitions = json.loads(answer)
    return Outline(dict(starts), [Definition(*one) for one in definitions])


def outline_in_process(data: bytes) -> bytes:
    """`outline_of`, from JSON to JSON."""
    found = _build_outline(*json.loads(data))
    definitions = [(one.first, one.last, one.head, one.body) for one in found.definitions]
    return json.dumps([[*found.starts.items()], definitions]).encode()


def _build_outline(path: str, text: str) -> Outline:
    grammar = grammar_of(path)
    tree = parse_code(grammar, text.encode("utf-8", "replace")) if grammar else None
    if grammar is None or tree is None:
        return Outline()
    lines = text.split("\n")
    outline = Outline()
    starts = outline.starts
    todo: list[tuple[Node, int, int]] = [(tree.root_node, 0, 0)]
    while todo:
        node, depth, level = todo.pop()
        # Deeper definitions are not useful places to cut.
        for child in node.named_children if level < 12 else ():
            defines = _is_definition(child.type, grammar)
            if defines:
                row = _with_comments(lines, child.start_point[0])
                starts[row] = min(depth, starts.get(row, depth))
                outline.definitions.extend(_parse_definition(lines, child))
            if defines or _CONTAINERS.fullmatch(child.type):
                todo.append((child, depth + defines, level + 1))
    return outline


def _parse_definition(lines: list[str], node: Node) -> Iterator[Definition]:
    body = node.child_by_field_name("body")
    if body is None:
        return
    first, last = node.start_point[0], node.end_point[0]
    # Keep a brace on the header's line; a statement there is not searched for.
    head = "\n".join(lines[first : max(first + 1, body.start_point[0])])
    head = head if len(head) <= _LONGEST_HEAD else f"{head[:_LONGEST_HEAD]} ..."
    yield Definition(first, last, head, body.start_point[0])


@cache
def _is_definition(kind: str, grammar: Grammar) -> bool:
    return kind in grammar.scopes or kind in grammar.members or bool(_DEFINITIONS.fullmatch(kind))


def _with_comments(lines: list[str], row: int) -> int:
    while row > 0 and lines[row - 1].lstrip().startswith(("#", "//", "/*", "*", "@", "--")):
        row -= 1
    return row
