"""Where edits are: whether one touches the developers' places, and how alike two edits are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pipeline.edits.unified_diff import FileDiff, Hunk, parse_diff
from pipeline.shown import Place
from pipeline.types import Frozen

NEAR = 3
"""Lines around a change that belong to its place, as in a diff's context."""
SHINGLE = 5
"""Words in a row that are compared."""
_WORD = re.compile(r"\w+|[^\w\s]")


class ChangedLines(Frozen):
    """A region of one file, in the numbers of the unedited code."""

    path: str
    first: int
    last: int
    heading: str
    """The enclosing definition, where the diff names it."""
    code: str
    """The lines before the edit, with their context."""


def list_changed_files(diff: str) -> frozenset[str]:
    """The files that `diff` changes, by their names before it; new ones by their new names."""
    return frozenset(file.old or file.path for file in parse_diff(diff))


def list_places(diff: str) -> list[ChangedLines]:
    """The regions that `diff` changes, in its order."""
    return [place for file in parse_diff(diff) for place in _places_of(file)]


def _places_of(file: FileDiff) -> Iterator[ChangedLines]:
    path = file.old or file.path
    if not file.hunks:
        yield ChangedLines(path=path, first=0, last=0, heading="", code="")
    for hunk in file.hunks:
        first, last = _find_changed_range(hunk)
        code = "\n".join(text for marker, text in hunk.lines if marker != "+")
        yield ChangedLines(path=path, first=first, last=last, heading=hunk.heading, code=code)


def _find_changed_range(hunk: Hunk) -> tuple[int, int]:
    """The first and last old line that the hunk changes, without its context."""
    at, touched = hunk.start, list[int]()
    for marker, _ in hunk.lines:
        if marker != " ":
            touched.append(at)
        at += marker != "+"
    return (touched[0], max(touched)) if touched else (hunk.start, hunk.start)


def hits_places(diff: str, reference: str) -> bool:
    """Whether `diff` changes something at every place that `reference` changes.

    Two changes are at one place if they are at most `NEAR` lines apart, or in one named definition.
    """
    ours = list_places(diff)
    theirs = list_places(reference)
    return bool(theirs) and all(any(_same_place(one, other) for one in ours) for other in theirs)


def names_files(paths: Iterable[str], reference: str) -> bool:
    """Whether `paths` hold every file that `reference` changes; new ones cannot be named."""
    changed = {file.old for file in parse_diff(reference) if file.old}
    return bool(changed) and changed <= set(paths)


def names_places(places: Iterable[Place], reference: str) -> bool:
    """Whether one of `places` is at every place that `reference` changes, new files left out."""
    ours = [
        ChangedLines(path=one.path, first=one.first, last=one.last, heading="", code="")
        for one in places
    ]
    theirs = [one for file in parse_diff(reference) if file.old for one in _places_of(file)]
    return bool(theirs) and all(any(_same_place(one, other) for one in ours) for other in theirs)


def _same_place(one: ChangedLines, other: ChangedLines) -> bool:
    if one.path != other.path:
        return False
    if one.heading and one.heading == other.heading:
        return True
    return one.first <= other.last + NEAR and other.first <= one.last + NEAR


def shingle_text(text: str) -> frozenset[int]:
    """The runs of `SHINGLE` words of `text`, as hashes; of a shorter text, the whole."""
    words = _WORD.findall(text.lower())
    if not words:
        return frozenset()
    ends = range(max(1, len(words) - SHINGLE + 1))
    return frozenset(hash(tuple(words[at : at + SHINGLE])) for at in ends)


def shingle_diff(diff: str) -> frozenset[int]:
    """The runs of words in the lines that `diff` changes, removed and added told apart."""
    return shingle_text("\n".join(_list_changed_lines(parse_diff(diff))))


def _list_changed_lines(files: Iterable[FileDiff]) -> Iterator[str]:
    for file in files:
        for hunk in file.hunks:
            yield from (
                f"{'added' if marker == '+' else 'removed'} {text}"
                for marker, text in hunk.lines
                if marker != " " and text.strip()
            )


def similarity(one: frozenset[int], other: frozenset[int]) -> float:
    """The Jaccard index of two sets of shingles, 0 to 1; 0 if both are empty."""
    both = len(one | other)
    return len(one & other) / both if both else 0.0
