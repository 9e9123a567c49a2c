"""Splits a file that is larger than a model's window into overlapping pieces, at definitions."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from pipeline.context.outline import Outline, outline_of
from pipeline.context.tokens import estimate_tokens, weight, weight_for
from pipeline.data.code_places import SourceFile


class Span(NamedTuple):
    """Where a piece begins and ends, in characters; the end is exclusive."""

    begin: int
    end: int
    within: str = ""
    """See `Piece.within`."""


SMALLEST = 100
"""The fewest tokens of a window."""
_AFTER_BLANK, _LINE_START, _WITHIN_LINE, _NOWHERE = 100, 101, 102, 103
"""Ranks of places to cut, lower is better; a definition's rank is its depth."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True)
class Piece:
    """A part of a file. Lines are counted from 1; both ends are inclusive, if only in part."""

    path: str
    text: str
    tokens: int
    first: int
    last: int
    number: int
    """From 1."""
    of: int
    within: str = ""
    """The headers of the classes and functions around its beginning; not counted in `tokens`."""


def split_file(file: SourceFile, window: int) -> tuple[Piece, ...]:
    """`file` in pieces of at most `window` tokens; one piece if it fits.

    Every character is in a piece, and neighbours overlap by up to a tenth of a window. Cuts are at
    the starts of definitions, the outermost that leave a piece at least half full; failing these at
    blank lines, else at line ends; a line that is longer than a window is split.

    Raises:
        ValueError: `window` is less than 100.
    """
    return build_pieces(file, find_cuts(file, window))


def build_pieces(file: SourceFile, spans: Sequence[Span]) -> tuple[Piece, ...]:
    """The pieces for the spans of `find_cuts`."""
    whole = len(spans) == 1
    return tuple(
        Piece(
            path=file.path,
            text=(text := file.text[begin:end]),
            tokens=file.tokens if whole else estimate_tokens(text),
            first=file.text.count("\n", 0, begin) + 1,
            last=file.text.count("\n", 0, max(begin, end - 1)) + 1,
            number=number,
            of=len(spans),
            within=within,
        )
        for number, (begin, end, within) in enumerate(spans, 1)
    )


def find_cuts(file: SourceFile, window: int) -> list[Span]:
    """Where to cut `file`; see `split_file`.

    Raises:
        ValueError: `window` is less than 100."""
    if window < SMALLEST:
        raise ValueError(f"A window has at least {SMALLEST} tokens.")
    if file.tokens <= window:
        return [Span(0, len(file.text))]
    room = weight_for(window)
    units = [unit for line in _LINE.findall(file.text) for unit in _halve(line, room // 2)]
    places = [0, *accumulate(map(len, units))]
    filled = [0, *accumulate(map(weight, units))]
    outline = outline_of(file.path, file.text)
    ranks = _ranks(outline, units)
    spans: list[Span] = []
    begin = end = 0
    while end < len(units):
        # `filled` grows, so bisection finds the furthest end.
        end = bisect_right(filled, filled[begin] + room) - 1
        # Blank lines together can weigh more than each by itself.
        while end > begin + 1 and weight(file.text[places[begin] : places[end]]) > room:
            end -= 1
        if end < len(units):
            # The least share of a window that a piece fills when it is cut before a definition.
            soonest = bisect_left(filled, filled[begin] + 0.5 * (filled[end] - filled[begin]))
            end = min(range(max(soonest, begin + 1), end + 1), key=lambda at: (ranks[at], -at))
        row = file.text.count("\n", 0, places[begin])
        spans.append(Span(places[begin], places[end], outline.heads_at(row)))
        # The share of a window by which a piece may overlap the piece before.
        earliest = bisect_left(filled, filled[end] - 0.1 * room)
        shared = range(max(earliest, begin + 1), end + 1)
        begin = min(shared, key=lambda at: (ranks[at] if at < end else _NOWHERE, at))
    return spans


def _halve(line: str, room: int) -> Iterator[str]:
    """`line`, halved until no part weighs more than `room`."""
    # No character weighs as much as three.
    if len(line) < 2 or 3 * len(line) <= room or weight(line) <= room:
        yield line
        return
    half = len(line) // 2
    yield from _halve(line[:half], room)
    yield from _halve(line[half:], room)


def _ranks(outline: Outline, units: Sequence[str]) -> list[int]:
    """The rank of a cut before each unit, and at the end; lower is better."""
    ranks: list[int] = []
    row, fresh, blank = 0, True, False
    for unit in units:
        if not fresh:
            ranks.append(_WITHIN_LINE)
        else:
            ranks.append(outline.starts.get(row, _AFTER_BLANK if blank else _LINE_START))
        fresh, blank = unit.endswith("\n"), not unit.strip()
        row += fresh
    return [*ranks, _NOWHERE]
