"""A candidate's diff in a form that is the same for edits that do the same in other words.

Agentless votes over patches normalised in this manner; here the diff alone is enough, and the
files before it make the form more exact.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.edits.unified_diff import FileDiff, Hunk, parse
from pipeline.selection.normalise.align import Change, changes
from pipeline.selection.normalise.irrelevant_files import is_aside
from pipeline.selection.normalise.lexing import Lexed, lex

Base = Callable[[str], "str | None"]
"""The text of a file before the edit, or None where it cannot be had."""

_DEFINITION = re.compile(r"^\s*(?:async\s+)?(?:def|class|function|func|fn)\s+(\w+)")
_METHOD = 5
"""Beyond this column stands, in a class as anyone indents it, the inside of a method."""
_LONGEST = 400_000
"""Characters of one side of one file that are parsed; what is larger counts line by line."""


class Place(NamedTuple):
    path: str
    name: str
    """The innermost definition that is named near the change; empty at the top level."""


@dataclass(frozen=True)
class FileForm:
    """What an edit does to one file."""

    path: str
    change: str
    """How the file as a whole changes: new, deleted, renamed, mode, binary; else empty."""
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Form:
    """An edit in canonical form. Equal `key` means equal after normalisation."""

    key: str
    files: tuple[FileForm, ...] = field(compare=False)
    places: frozenset[Place] = field(compare=False)
    aside: tuple[str, ...] = field(compare=False)
    """Paths that were left out: tests, documents, scripts left behind."""

    @property
    def empty(self) -> bool:
        """Whether the edit changes nothing that a program does."""
        return not self.files


def normalise(diff: str, *, base: Base | None = None, whole: bool = False) -> Form:
    """The canonical form of `diff`.

    Comments, docstrings, blank lines, formatting, line endings, the names of local variables that
    the edit brings in, the amount of context and the order of files make no difference. Tests,
    documents and left scripts are put aside, unless there is nothing else or `whole` asks for
    everything. Never raises: what cannot be read as a diff gives an empty form, equal only to that
    of the same text. Time is linear in the diff (beyond a bound, regions are compared as one).
    """
    parsed = parse(diff)
    essential = parsed if whole else [file for file in parsed if not is_aside(file)]
    chosen = essential or parsed
    forms = sorted(
        (form for file in chosen if (form := _file(file, base))), key=lambda form: form.path
    )
    places = frozenset(place for file in chosen for place in _places(file))
    aside = tuple(file.path for file in parsed if file not in chosen)
    key = _key(forms, "" if parsed else diff)
    return Form(key, tuple(forms), places, aside)


def _key(forms: Iterable[FileForm], unread: str) -> str:
    digest = hashlib.sha256(unread.encode("utf-8", "surrogatepass"))
    for form in forms:
        plain = (form.path, form.change, [c.canonical for c in form.changes])
        digest.update(repr(plain).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def _file(file: FileDiff, base: Base | None) -> FileForm | None:
    """None when nothing but comments and formatting changes."""
    change = _whole_file(file)
    found = changes_of(file, base) if not file.binary else ()
    return FileForm(file.path, change, found) if change or found else None


def _whole_file(file: FileDiff) -> str:
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


def changes_of(file: FileDiff, base: Base | None) -> tuple[Change, ...]:
    """The changes of one file, in its order."""
    before = base(file.old) if base and file.old and file.hunks else None
    after = _applied(before, file.hunks) if before is not None else None
    if before is not None and after is not None:
        parts = [_Part(before, after, 0, None)]
    else:
        parts = [_part(hunk) for hunk in file.hunks]
    sides = [
        (_lexed(p.before, file.path, p.inner), _lexed(p.after, file.path, p.inner), p.start)
        for p in parts
    ]
    found = [change for old, new, start in sides for change in changes(old.units, new.units, start)]
    names = _numbered(_brought(sides), found)
    return tuple(change.renamed(names) for change in found) if names else tuple(found)


class _Part(NamedTuple):
    before: str
    after: str
    start: int
    """How many lines of the file come before."""
    inner: int | None
    """The column from which names are local, as far as the header tells."""


def _part(hunk: Hunk) -> _Part:
    before = "\n".join(text for marker, text in hunk.lines if marker != "+")
    after = "\n".join(text for marker, text in hunk.lines if marker != "-")
    inside = hunk.heading.strip().startswith(("def ", "async "))
    return _Part(before, after, max(hunk.start - 1, 0), 1 if inside else _METHOD)


def _lexed(text: str, path: str, inner: int | None) -> Lexed:
    return lex(text, path if len(text) <= _LONGEST else "plain", inner)


def _applied(before: str, hunks: Iterable[Hunk]) -> str | None:
    """The file after the hunks; None when they do not fit it."""
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


def _brought(sides: list[tuple[Lexed, Lexed, int]]) -> set[str]:
    """Local variables that the edit brings in: bound after, not so much as named before."""
    bound = {name for _, new, _ in sides for name in new.bound}
    bound -= {name for old, new, _ in sides for name in (*new.kept, *old.kept)}
    if bound:
        for old, _, _ in sides:
            for unit in old.units:
                bound.difference_update(unit.tokens)
    return bound


def _numbered(names: set[str], found: Iterable[Change]) -> dict[str, str]:
    """A name for each that says only which was met first. No language has it."""
    if not names:
        return {}
    met = dict.fromkeys(token for change in found for token in change.added if token in names)
    return {name: f"\0local{number}" for number, name in enumerate(met)}


def _places(file: FileDiff) -> Iterable[Place]:
    for hunk in file.hunks:
        name = _DEFINITION.match(hunk.heading)
        inner = name[1] if name else ""
        for marker, text in hunk.lines:
            if definition := _DEFINITION.match(text):
                inner = definition[1]
            elif marker != " ":
                yield Place(file.path, inner)
