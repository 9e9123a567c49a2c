"""The parts of the unedited code that a diff touches: files, and functions in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.edits.unified_diff import FileDiff, Hunk, parse_diff


@dataclass(frozen=True)
class TouchedCode:
    """Everything is named as on the unedited code."""

    files: frozenset[str]
    """Files that are changed, removed, renamed or new."""
    gone: frozenset[str]
    """Files that are removed or renamed."""
    functions: frozenset[str]
    """`path:line` of changed functions."""
    outside: frozenset[str]
    """Files changed outside of any function, or with unknown functions."""


def find_touched(diff: str, functions: Mapping[str, Sequence[tuple[int, int]]]) -> TouchedCode:
    """Find what `diff` touches; `functions` are first and last lines by path."""
    parsed = parse_diff(diff)
    inside: set[str] = set()
    outside: set[str] = set()
    for file in parsed:
        path = file.old
        if path is None:
            continue
        spans = functions.get(path)
        for first, last in _changes(file):
            span = _innermost_function(spans or (), first, last)
            if span is not None:
                inside.add(f"{path}:{span[0]}")
            if span is None or last > span[1]:
                outside.add(path)
        if not file.hunks:  # a mode, a rename, a binary part
            outside.add(path)
    names = {name for file in parsed for name in (file.old, file.new) if name}
    gone = {file.old for file in parsed if file.old and file.old != file.new}
    return TouchedCode(frozenset(names), frozenset(gone), frozenset(inside), frozenset(outside))


def _changes(file: FileDiff) -> Iterator[tuple[int, int]]:
    for hunk in file.hunks:
        yield from _regions(hunk)


def _regions(hunk: Hunk) -> Iterator[tuple[int, int]]:
    """First and last old line; for a pure addition, the lines before and after the place.

    Lines added next to removed lines replace them.
    """
    line = hunk.start
    previous = " "
    for marker, _ in hunk.lines:
        if marker == "-":
            yield line, line
        elif marker == "+" and previous == " ":
            yield line - 1, line
        line += marker != "+"
        previous = marker


def _innermost_function(
    spans: Sequence[tuple[int, int]], first: int, last: int
) -> tuple[int, int] | None:
    """The innermost function that contains both lines, or whose last line is `first`."""
    holding = [span for span in spans if span[0] <= first and last <= span[1] + 1]
    holding = [span for span in holding if first <= span[1]]
    return max(holding, default=None)
