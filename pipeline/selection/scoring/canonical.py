"""The canonical form of a diff: equal for edits that differ in form only.

Agentless votes over patches normalised in this way. With the unedited
files, the form is exact; of a diff alone, parts of files are read as far as they can be.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import chain, takewhile
from operator import eq
from typing import NamedTuple

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import FileDiff, Hunk, parse_diff
from pipeline.edits.suspicious import is_irrelevant
from pipeline.selection.scoring.lexing import CLOSERS, OPENERS, LexResult, LogicalLine, lex


@dataclass(frozen=True)
class TokenChange:
    """One region of tokens replaced by another; either may be empty."""

    anchor: tuple[int, int]
    """The position in the file before the edit, as line (from 0) and token in it: of the first
    removed token, or, for an insertion, of the token before it (-1: unknown)."""
    removed: tuple[str, ...]
    added: tuple[str, ...]
    units_removed: tuple[tuple[str, ...], ...]
    """The whole logical lines around `removed`."""
    units_added: tuple[tuple[str, ...], ...]

    @property
    def canonical(self) -> tuple[object, ...]:
        return (self.anchor, self.removed, self.added)

    def with_names(self, names: Mapping[str, str]) -> "TokenChange":
        """This change with local names replaced."""
        return TokenChange(
            self.anchor,
            self.removed,
            substitute_names(self.added, names),
            self.units_removed,
            tuple(substitute_names(unit, names) for unit in self.units_added),
        )


def substitute_names(tokens: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """`tokens` with names replaced, except attributes and the names of keyword arguments."""
    result: list[str] = []
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token in OPENERS) - (token in CLOSERS)
        if token in names and not (i and tokens[i - 1] in (".", "?.")):
            keyword = depth > 0 and tokens[i + 1 : i + 2] == ("=",)
            token = token if keyword else names[token]
        result.append(token)
    return tuple(result)


def changes(
    old: Sequence[LogicalLine], new: Sequence[LogicalLine], start: int
) -> list[TokenChange]:
    """The changes from `old` to `new`, in order; `start` lines of the file come before `old`."""
    head = _common_prefix_length(old, new)
    tail = _common_prefix_length(old[head:][::-1], new[head:][::-1])
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    if not a and not b:
        return []
    # A larger region counts as one replacement.
    if len(a) * len(b) > 40_000:
        regions = [(0, len(a), 0, len(b))]
    else:
        matcher = SequenceMatcher(None, [u.tokens for u in a], [u.tokens for u in b], False)
        regions = [(i, j, k, m) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"]
    return [
        _change(old, new, (head + i, head + j, head + k, head + m), start) for i, j, k, m in regions
    ]


def _change(
    old: Sequence[LogicalLine],
    new: Sequence[LogicalLine],
    region: tuple[int, int, int, int],
    start: int,
) -> TokenChange:
    i, j, k, m = region
    gone, come = old[i:j], new[k:m]
    removed = [*chain.from_iterable(_with_newline(unit) for unit in gone)]
    added = [*chain.from_iterable(_with_newline(unit) for unit in come)]
    head = _common_prefix_length(removed, added)
    tail = _common_prefix_length(removed[head:][::-1], added[head:][::-1])
    lines = [*chain.from_iterable((*unit.lines, unit.lines[-1]) for unit in gone)]
    if head < len(removed) - tail:
        anchor = (start + lines[head], _token_index(lines, head))
    elif head:
        anchor = (start + lines[head - 1], _token_index(lines, head - 1))
    else:
        anchor = (start + old[i - 1].lines[-1], -2) if i else (start - 1, -2)
    return TokenChange(
        anchor,
        tuple(removed[head : len(removed) - tail]),
        tuple(added[head : len(added) - tail]),
        tuple(unit.tokens for unit in gone),
        tuple(unit.tokens for unit in come),
    )


def _with_newline(unit: LogicalLine) -> tuple[str, ...]:
    return (*unit.tokens, "\n")


def _common_prefix_length(a: Sequence[object], b: Sequence[object]) -> int:
    return sum(takewhile(bool, map(eq, a, b)))


def _token_index(lines: Sequence[int], at: int) -> int:
    """The index of a token in its line."""
    first = at
    while first and lines[first - 1] == lines[at]:
        first -= 1
    return at - first


BaseText = Callable[[str], "str | None"]
"""The text of a file before the edit; None if it is not available."""
_LARGEST = 400_000
"""Larger texts are compared by line, and need no base."""


async def read_base(
    codebase: Codebase, diffs: Iterable[str], known: Container[str] = ()
) -> dict[str, str]:
    """The texts before the edit of the files that `diffs` change, by path, but for the `known`."""
    files = chain.from_iterable(parse_diff(diff) for diff in dict.fromkeys(diffs))
    paths = dict.fromkeys(file.old for file in files if file.old)
    return await codebase.read_texts(
        [path for path in paths if path not in known], largest=_LARGEST
    )


@dataclass(frozen=True)
class CanonicalFile:
    """What an edit does to one file."""

    path: str
    change: str
    """The kind of change to the whole file: new, deleted, renamed, mode, binary; else empty."""
    changes: tuple[TokenChange, ...]


@dataclass(frozen=True)
class CanonicalEdit:
    """An edit in canonical form. Equal `key` means equal after normalisation."""

    key: str
    files: tuple[CanonicalFile, ...] = field(compare=False)
    irrelevant_files: tuple[str, ...] = field(compare=False)
    """Paths left out: tests, documents, leftover scripts."""

    @property
    def empty(self) -> bool:
        """Whether the edit leaves the behaviour of every program unchanged."""
        return not self.files


def normalise(diff: str, *, base: BaseText | None = None, whole: bool = False) -> CanonicalEdit:
    """The canonical form of `diff`.

    Comments, docstrings, blank lines, formatting, line endings, the names of local variables that
    the edit introduces, the amount of context and the order of files make no difference. Tests,
    documents and leftover scripts are left out, unless there is nothing else or `whole` is set.
    Never raises. An empty form, as of text that is not a diff, equals only that of the same text.
    Time is linear in the diff (beyond a bound, regions are compared as one).
    """
    parsed = parse_diff(diff)
    essential = parsed if whole else [file for file in parsed if not is_irrelevant(file)]
    chosen = essential or parsed
    lexer = _Lexer()
    forms = sorted(
        (form for file in chosen if (form := _canonical_file(file, base, lexer))),
        key=lambda form: form.path,
    )
    irrelevant_files = tuple(file.path for file in parsed if file not in chosen)
    key = _key(forms, "" if forms else diff)
    return CanonicalEdit(key, tuple(forms), irrelevant_files)


class _Lexer:
    def __init__(self) -> None:
        self._unread = 0

    def lex(self, text: str, path: str, inner: int | None) -> LexResult:
        # By line, too, after three that took too long to parse.
        parsed = len(text) <= _LARGEST and self._unread < 3
        result = lex(text, path if parsed else "plain", inner)
        self._unread += result.unread
        return result

    def lex_both(self, part: "_HunkSides", path: str) -> tuple[LexResult, LexResult]:
        old, new = (self.lex(text, path, part.inner) for text in (part.before, part.after))
        if old.guessed != new.guessed:
            # What was taken for a docstring may be code.
            old, new = (self.lex(text, "plain", None) for text in (part.before, part.after))
        return old, new


def _key(forms: Iterable[CanonicalFile], unread: str) -> str:
    digest = hashlib.sha256(unread.encode("utf-8", "surrogatepass"))
    for form in forms:
        plain = (form.path, form.change, [c.canonical for c in form.changes])
        digest.update(repr(plain).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def _canonical_file(file: FileDiff, base: BaseText | None, lexer: _Lexer) -> CanonicalFile | None:
    """The canonical form of one file's changes; None if only comments and formatting change."""
    change = _describe_file_change(file)
    found = _changes_of(file, base, lexer) if not file.binary else ()
    return CanonicalFile(file.path, change, found) if change or found else None


def _describe_file_change(file: FileDiff) -> str:
    if file.binary:
        return "binary " + hashlib.sha256("\n".join(file.binary).encode()).hexdigest()
    parts: list[str] = []
    if file.old is None:
        parts.append("new")
    elif file.new is None:
        parts.append("deleted")
    elif file.old != file.new:
        parts.append(f"renamed {file.old}")
    if file.mode:
        parts.append(f"mode {file.mode}")
    return ", ".join(parts)


def _changes_of(file: FileDiff, base: BaseText | None, lexer: _Lexer) -> tuple[TokenChange, ...]:
    before = "" if file.old is None else base(file.old) if base and file.hunks else None
    after = None if before is None else _apply_hunks(before, file.hunks)
    is_whole = before is not None and after is not None
    if before is not None and after is not None:
        parts = [_HunkSides(before, after, 0, None)]
    else:
        parts = [_hunk_sides(hunk) for hunk in file.hunks]
    sides = [(*lexer.lex_both(part, file.path), part.start) for part in parts]
    found = [change for old, new, start in sides for change in changes(old.units, new.units, start)]
    bound = _new_locals(sides)
    if not is_whole:
        bound = _find_bound_here(bound, found, file.hunks)
    names = _number_names(bound, found)
    return tuple(change.with_names(names) for change in found) if names else tuple(found)


class _HunkSides(NamedTuple):
    before: str
    after: str
    start: int
    """How many lines of the file come before."""
    inner: int | None
    """The column from which names are local, if the hunk's header shows it."""


def _hunk_sides(hunk: Hunk) -> _HunkSides:
    before = "\n".join(text for marker, text in hunk.lines if marker != "+")
    after = "\n".join(text for marker, text in hunk.lines if marker != "-")
    inside = hunk.heading.strip().startswith(("def ", "async "))
    # Code indented beyond this column in a class is, in any usual style, the body of a method.
    return _HunkSides(before, after, max(hunk.start - 1, 0), 1 if inside else 5)


def _apply_hunks(before: str, hunks: Iterable[Hunk]) -> str | None:
    """The file after the hunks; None if they do not fit it."""
    lines = before.replace("\r\n", "\n").split("\n")
    result: list[str] = []
    at = 0
    for hunk in hunks:
        old = [text for marker, text in hunk.lines if marker != "+"]
        start = hunk.start - 1 if old else hunk.start
        if start < at or lines[start : start + len(old)] != old:
            return None
        result += lines[at:start]
        result += [text for marker, text in hunk.lines if marker != "-"]
        at = start + len(old)
    return "\n".join(result + lines[at:])


def _new_locals(sides: list[tuple[LexResult, LexResult, int]]) -> set[str]:
    """Local variables that the edit introduces: bound after it, not even mentioned before."""
    bound = {name for _, new, _ in sides for name in new.local_names}
    bound -= {name for old, new, _ in sides for name in (*new.other_names, *old.other_names)}
    if bound:
        for old, _, _ in sides:
            for unit in old.units:
                bound.difference_update(unit.tokens)
    return bound


def _find_bound_here(
    names: Iterable[str], found: Iterable[TokenChange], hunks: Iterable[Hunk]
) -> set[str]:
    """Those of `names` that are bound before they are read and read afterwards, as far as the hunks
    show. Others may be names of the code around, such as an argument that is converted."""
    first: dict[str, tuple[str, ...]] = {}
    count = Counter[str]()
    for unit in chain.from_iterable(change.units_added for change in found):
        count.update(unit)
        for token in unit:
            first.setdefault(token, unit)
    around = set(chain.from_iterable(re.findall(r"\w+", hunk.heading) for hunk in hunks))
    return {
        name
        for name in names
        if name not in around and count[name] > 1 and _binds(first[name], name)
    }


def _binds(unit: Sequence[str], name: str) -> bool:
    if "for" in unit or "lambda" in unit:  # a comprehension reads what it binds
        return True
    return unit.count(name) == 1 and not {"=", ":=", "as"}.isdisjoint(unit)


def _number_names(names: set[str], found: Iterable[TokenChange]) -> dict[str, str]:
    """A placeholder for each name that encodes its order of appearance. No language uses it."""
    if not names:
        return {}
    met = dict.fromkeys(token for change in found for token in change.added if token in names)
    return {name: f"\0local{number}" for number, name in enumerate(met)}
