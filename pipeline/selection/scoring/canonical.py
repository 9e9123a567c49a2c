"""The canonical form of a candidate's diff: equal for edits that differ only in wording.

Agentless votes over patches normalised in this way. The diff alone is enough here; with the
unedited files, the form is more exact.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.edits.unified_diff import FileDiff, Hunk, parse_diff
from pipeline.selection.normalise.align import TokenChange, changes
from pipeline.selection.normalise.irrelevant_files import is_irrelevant
from pipeline.selection.normalise.lexing import LexResult, lex

BaseText = Callable[[str], "str | None"]
"""The text of a file before the edit; None if it is not available."""

_DEFINITION = re.compile(r"^\s*(?:async\s+)?(?:def|class|function|func|fn)\s+(\w+)")
_METHOD_COLUMN = 5
"""Code indented beyond this column in a class is, in any usual style, the body of a method."""
_MAX_CHARACTERS = 400_000
"""The largest side of a file that is parsed, in characters; beyond it, lines are compared."""
_MOST_UNREAD = 3
"""Texts of one edit that may cost more to parse than is allowed, each some seconds; after these,
only lines are compared."""


class EditLocation(NamedTuple):
    path: str
    name: str
    """The innermost definition known around the change; empty at the top level."""


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
    locations: frozenset[EditLocation] = field(compare=False)
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
    Never raises: text that is not a diff has an empty form, equal only to that of the same text.
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
    places = frozenset(place for file in chosen for place in _edit_locations(file))
    irrelevant_files = tuple(file.path for file in parsed if file not in chosen)
    key = _key(forms, "" if parsed else diff)
    return CanonicalEdit(key, tuple(forms), places, irrelevant_files)


class _Lexer:
    """Splits the texts of one edit."""

    def __init__(self) -> None:
        self._unread = 0

    def lex(self, text: str, path: str, inner: int | None) -> LexResult:
        parsed = len(text) <= _MAX_CHARACTERS and self._unread < _MOST_UNREAD
        result = lex(text, path if parsed else "plain", inner)
        self._unread += result.unread
        return result


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
    """The changes of one file, in file order."""
    before = base(file.old) if base and file.old and file.hunks else None
    after = _apply_hunks(before, file.hunks) if before is not None else None
    if before is not None and after is not None:
        parts = [_HunkSides(before, after, 0, None)]
    else:
        parts = [_hunk_sides(hunk) for hunk in file.hunks]
    sides = [
        (lexer.lex(p.before, file.path, p.inner), lexer.lex(p.after, file.path, p.inner), p.start)
        for p in parts
    ]
    found = [change for old, new, start in sides for change in changes(old.units, new.units, start)]
    names = _number_names(_new_locals(sides), found)
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
    return _HunkSides(before, after, max(hunk.start - 1, 0), 1 if inside else _METHOD_COLUMN)


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


def _number_names(names: set[str], found: Iterable[TokenChange]) -> dict[str, str]:
    """A placeholder for each name that encodes its order of appearance. No language uses it."""
    if not names:
        return {}
    met = dict.fromkeys(token for change in found for token in change.added if token in names)
    return {name: f"\0local{number}" for number, name in enumerate(met)}


def _edit_locations(file: FileDiff) -> Iterable[EditLocation]:
    for hunk in file.hunks:
        name = _DEFINITION.match(hunk.heading)
        inner = name[1] if name else ""
        for marker, text in hunk.lines:
            if definition := _DEFINITION.match(text):
                inner = definition[1]
            elif marker != " ":
                yield EditLocation(file.path, inner)
