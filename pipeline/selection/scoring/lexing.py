"""Source text as logical lines of tokens.

tree-sitter's own queries take quadratic time where one node has very many children.
"""

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from tree_sitter import Node, Tree

from pipeline.codebase.grammars import Grammar, Layout, Rule, grammar_of, parse_code
from pipeline.codebase.isolated import READER

_HASH_COMMENTS = re.compile(
    r"(?:^|/)(?:Makefile|Dockerfile)$|\.(?:sh|ya?ml|toml|cfg|ini|pl|r|mk|cmake)$"
)
"""Files in which a line that begins with `#` is a comment."""


@dataclass(frozen=True)
class LogicalLine:
    tokens: tuple[str, ...]
    """Where indentation matters, the first token is a NUL followed by its width."""
    lines: tuple[int, ...] = field(compare=False)
    """The physical line of each token, from 0."""


def split_plain_text(text: str, path: str) -> tuple[LogicalLine, ...]:
    """Split files of a kind without a grammar into lines of words."""
    hashed = bool(_HASH_COMMENTS.search(path))
    units: list[LogicalLine] = []
    for number, line in enumerate(text.split("\n")):
        words = line.split()
        if not words or (hashed and words[0].startswith("#") and not words[0].startswith("#!")):
            continue
        width = len(line.expandtabs()) - len(line.expandtabs().lstrip())
        tokens = (f"\0{width}", *words)
        units.append(LogicalLine(tokens, (number,) * len(tokens)))
    return tuple(units)


WORD = r"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*"
"""A name, in text with one character per byte of UTF-8."""
OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = frozenset(OPENERS.values())


class Capture(NamedTuple):
    name: str
    start: int
    """In bytes, as is `end`."""
    end: int
    scope: str
    """Whether the innermost definition around it is a `scope` or of `members`; empty if there is
    none."""
    column: int
    """The first column of its line that a node around it, or it, starts at."""


class _Step(NamedTuple):
    """A node on the way from the root."""

    node: Node
    kind: int
    field: int | None
    scope: str
    """The scope inside it."""
    row: int
    column: int


def find_captures(tree: Tree, grammar: Grammar) -> list[Capture]:
    """The captured nodes of `tree`, in the order of the text, outer ones first.

    Takes time in proportion to the number of nodes.
    """
    inside = {
        grammar.language.id_for_node_kind(kind, True): name
        for name, kinds in (("members", grammar.members), ("scope", grammar.scopes))
        for kind in kinds
    }
    by_kind, by_parent = grammar.rules
    found: list[Capture] = []
    for step, way in _walk(tree, inside):
        node, above = step.node, way[-1] if way else None
        rules = by_kind.get(step.kind, ())
        if above and above.kind in by_parent and node.is_named and not node.is_error:
            rules += by_parent[above.kind]
        scope = above.scope if above else ""
        found += [
            Capture(rule.capture, node.start_byte, node.end_byte, scope, step.column)
            for rule in rules
            if _fits(rule, step, way)
        ]
    return found


def _walk(tree: Tree, inside: Mapping[int | None, str]) -> Iterator[tuple[_Step, list[_Step]]]:
    """Each node with the way to it. `inside`: what a node of a kind is to the names in it."""
    way: list[_Step] = []
    cursor = tree.walk()
    while (node := cursor.node) is not None:
        kind, (row, column) = node.kind_id, node.start_point
        above = way[-1] if way else None
        if above and above.row == row:
            column = above.column
        scope = inside.get(kind, above.scope if above else "")
        step = _Step(node, kind, cursor.field_id, scope, row, column)
        yield step, way
        if cursor.goto_first_child():
            way.append(step)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            way.pop()


def _fits(rule: Rule, at: _Step, way: list[_Step]) -> bool:
    """Whether `at`, to which `way` leads, is a node that `rule` captures."""
    above = len(way) - 1
    for wanted in rule.steps:
        if wanted.kind is not None and wanted.kind != at.kind:
            return False
        if wanted.field is not None and wanted.field != at.field:
            return False
        parent = way[above] if above >= 0 else None
        if wanted.only and (parent is None or parent.node.named_child_count != 1):
            return False
        if wanted is rule.steps[-1]:
            return True
        if parent is None:
            return False
        at, above = parent, above - 1
    return True


_TOKEN = re.compile(
    rf"\x00\d+\x01|\\\r?\n|\n[ \t\f]*|{WORD}|\d[\w.]*"
    r"|===|!==|\*\*=|//=|>>=|<<=|\.\.\.|==|!=|<=|>=|->|=>|:="
    r"|\+=|-=|\*=|/=|%=|&=|\|=|\^=|@=|\*\*|//|<<|>>|&&|\|\||\?\?|\?\.|::|\+\+|--|[^\s\\]|\\"
)
_DEFINITION = re.compile(rb"^([ \t]*)(?:async |def |class |@)", re.MULTILINE)
_SPECIAL = frozenset("\n\\\0;([{)]}")


@dataclass(frozen=True)
class LexResult:
    units: tuple[LogicalLine, ...]
    local_names: frozenset[str] = frozenset()
    """Names bound as local variables."""
    other_names: frozenset[str] = frozenset()
    """Names of parameters, globals and members: never purely local."""
    guessed: str = ""
    """What was left out of a part of a file as docstrings, where that is a guess."""
    unread: bool = False
    """Whether it is code that cost too much to parse, and so was split as plain text."""


@lru_cache(maxsize=512)
def lex(text: str, path: str, local_from: int | None = None) -> LexResult:
    """The logical lines of `text`, which is all or part of the file `path`.

    `local_from`: for a part of a file, the column from which a name bound outside every visible
    definition is a local variable. Takes time linear in the length of `text`. A part that starts or
    ends inside a string or brackets is read on a best-effort basis. Code is parsed in a process
    with limits; beyond them it counts as plain text.
    """
    if grammar_of(path) is None:
        return LexResult(split_plain_text(text, path))
    answer = READER.call(lex_in_process, json.dumps([text, path, local_from]).encode())
    if not answer:
        return LexResult(split_plain_text(text, path), unread=True)
    units, local, other, guessed = json.loads(answer)
    lines = tuple(LogicalLine(tuple(tokens), tuple(rows)) for tokens, rows in units)
    return LexResult(lines, frozenset(local), frozenset(other), guessed)


def lex_in_process(data: bytes) -> bytes:
    """`lex_code`, from JSON to JSON; empty if it takes too long."""
    found = lex_code(*json.loads(data))
    if found is None:
        return b""
    units = [(unit.tokens, unit.lines) for unit in found.units]
    return json.dumps([units, [*found.local_names], [*found.other_names], found.guessed]).encode()


def lex_code(text: str, path: str, local_from: int | None) -> LexResult | None:
    """As `lex`, for a file with a grammar, in this process; None if parsing takes too long."""
    grammar = grammar_of(path)
    if grammar is None:
        return None
    # NUL marks the text that is set aside below; no source file needs it.
    data = text.replace("\0", " ").encode("utf-8", "surrogatepass")
    reading = _parse(data, grammar, is_part=local_from is not None)
    if reading is None:
        return None
    tree, shift = reading.tree, reading.shift
    captures = find_captures(tree, grammar)
    spans = _opaque_spans(captures, shift, len(data))
    # One character per byte, so that the tree's offsets fit.
    units = _LineBuilder(data.decode("latin-1"), grammar.layout).build(spans)
    bound: set[str] = set()
    kept: set[str] = set()
    columns = {len(indent) for indent in _DEFINITION.findall(data)}
    for capture in captures:
        if capture.name in ("local", "bound", "kept"):
            is_bound = capture.name != "kept" and (
                capture.name == "local" or _is_local(capture, columns, local_from)
            )
            name = data[max(capture.start - shift, 0) : max(capture.end - shift, 0)]
            (bound if is_bound else kept).add(name.decode("latin-1"))
    guessed = ""
    if local_from is not None and grammar.name == "python":
        left_out = (
            data[max(one.start - shift, 0) : one.end - shift]
            for one in captures
            if one.name == "drop" and (reading.guessed or not one.scope)
        )
        strings = (text for text in left_out if not text.startswith(b"#"))
        guessed = b"\n".join(strings).decode("latin-1")
    return LexResult(tuple(units), frozenset(bound), frozenset(kept), guessed)


class _Reading(NamedTuple):
    tree: Tree
    shift: int
    """How many bytes were put before the data."""
    guessed: bool
    """Whether another reading is possible, or bytes are left that no reading explains."""


_Cost = tuple[int, int]
"""Of a reading: bytes not parsed, bytes inside strings."""


def _parse(data: bytes, grammar: Grammar, *, is_part: bool) -> _Reading | None:
    """Parse `data`; None if that takes too long.

    A part of a Python file may start and end inside docstrings: every reading is parsed, and the
    one with the fewest unparsed bytes wins, then the one with the fewest bytes in strings.
    """
    tree = parse_code(grammar, data)
    if tree is None:
        return None
    quotes = [mark for mark in (b'"""', b"'''") if mark in data]
    if grammar.name != "python" or not is_part or not quotes:
        return _Reading(tree, 0, guessed=False)
    costs: dict[_Cost, _Reading] = {}
    for before, after in product((b"", *quotes), repeat=2):
        text = (before and before + b"\n") + data + (after and b"\n" + after)
        other = parse_code(grammar, text) if before or after else tree
        if other is not None:
            plain = not before and not after
            reading = _Reading(other, len(before) + bool(before), guessed=not plain)
            costs.setdefault(_find_cost(other), reading)
    best = min(costs)
    return costs[best]._replace(guessed=costs[best].guessed or best[0] > 0)


def _find_cost(tree: Tree) -> _Cost:
    unparsed = in_strings = 0
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        if node.is_error:
            unparsed += node.end_byte - node.start_byte
        if node.type == "string":
            in_strings += node.end_byte - node.start_byte
        elif node.child_count:
            stack.extend(node.children)
    return unparsed, in_strings


_Span = tuple[int, int, str]


def _opaque_spans(captures: Sequence[Capture], shift: int, length: int) -> list[_Span]:
    """The spans that are not read as tokens, in order: start, end, kind. They do not overlap."""
    found = [
        (max(capture.start - shift, 0), min(capture.end - shift, length), kind)
        for kind in ("drop", "text", "open", "close")
        for capture in captures
        if capture.name == kind and capture.end > shift
    ]
    found.sort(key=lambda span: (span[0], -span[1]))
    spans: list[_Span] = []
    end = 0
    for span in found:
        if span[0] >= end:
            spans.append(span)
            end = span[1]
    return spans


def _is_local(capture: Capture, columns: Container[int], local_from: int | None) -> bool:
    """Whether a binding is of a local variable, by the innermost definition around it."""
    if capture.scope:
        return capture.scope == "scope"
    if local_from is None or capture.column < local_from:
        return False
    # Level with a definition, it is a member of the same class.
    return capture.column not in columns


class _LineBuilder:
    def __init__(self, text: str, layout: Layout) -> None:
        self._text = text
        self._layout = layout
        self._units: list[LogicalLine] = []
        self._tokens: list[str] = []
        self._lines: list[int] = []
        self._line = 0
        first = re.match(r"[ \t\f]*", text)
        self._indent = len(first[0].expandtabs()) if first else 0
        self._brackets: list[str] = []
        """The closer of each open bracket."""
        self._pending = False
        self._strings: list[tuple[str, int]] = []
        """For each mark: the text (empty for dropped text), and how many line ends it holds."""

    def build(self, spans: list[_Span]) -> list[LogicalLine]:
        for token in _TOKEN.findall(self._replace_strings(spans)):
            if token[0] in _SPECIAL:
                self._add_special(token[0], token)
            else:
                self._add(token)
        self._end()
        return self._units

    def _replace_strings(self, spans: list[_Span]) -> str:
        """The text without dropped spans, and with a mark for each string."""
        parts: list[str] = []
        at = 0
        for start, end, kind in spans:
            parts.append(self._text[at:start])
            at = end
            breaks = self._text.count("\n", start, end)
            if kind != "drop":
                parts.append(f"\0{len(self._strings)}\1")
                self._strings.append((self._canonical_string(self._text[start:end], kind), breaks))
            elif breaks:
                self._strings.append(("", breaks))
                parts.append(f"\0{len(self._strings) - 1}\1")
        parts.append(self._text[at:])
        return "".join(parts)

    def _add_special(self, first: str, token: str) -> None:
        if first == "\n":
            self._line += 1
            self._add_newline(token)
        elif first == "\\" and len(token) > 1:
            self._line += 1
        elif first == "\0" and len(token) > 1:
            text, breaks = self._strings[int(token[1:-1])]
            if text:
                self._add(text)
            self._line += breaks
        elif first in OPENERS or first in CLOSERS:
            self._add_bracket(token)
        else:
            self._add(token)
            if first == ";" and self._layout == "free":
                self._end()

    def _resolve_pending(self, token: str) -> None:
        """Handle a line end that did not necessarily end a statement."""
        self._pending = False
        # A line that begins with one of these continues the line before.
        if token not in (".", "?.", "&&", "||", "??", "?", ":"):
            self._end()

    def _add(self, token: str) -> None:
        if self._pending:
            self._resolve_pending(token)
        if not self._tokens and self._layout == "indented":
            self._tokens.append(f"\0{self._indent}")
            self._lines.append(self._line)
        self._tokens.append(token)
        self._lines.append(self._line)

    def _add_newline(self, token: str) -> None:
        inside = bool(self._brackets) and self._layout != "free"
        if inside and (self._brackets[-1] != "}" or self._layout == "indented"):
            return
        if self._layout == "indented":
            self._end()
            self._indent = len(token[1:].expandtabs())
        elif self._layout == "lines" and self._tokens:
            self._pending = True

    def _add_bracket(self, token: str) -> None:
        self._add(token)
        if token in OPENERS:
            self._brackets.append(OPENERS[token])
        elif self._brackets and self._brackets[-1] == token:
            self._brackets.pop()
        if token in ("{", "}") and self._layout == "free":
            self._end()

    def _canonical_string(self, text: str, kind: str) -> str:
        if self._layout == "indented":
            if kind == "open":
                return text.rstrip("\"'").lower() + '"'
            if kind == "close":
                return '"'
            if "\\" in text:
                return text.replace("\\'", "'").replace('\\"', '"')
        return text

    def _end(self) -> None:
        if self._tokens:
            self._units.append(LogicalLine(tuple(self._tokens), tuple(self._lines)))
            self._tokens, self._lines = [], []
        if self._layout != "free":
            self._brackets.clear()
        self._pending = False
