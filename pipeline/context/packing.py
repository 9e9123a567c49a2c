"""Files into a token budget: whole where they fit, in their relevant parts where they cannot."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import log

from pipeline.context.files.chunks import Piece, split_file
from pipeline.context.tokens import estimate_tokens
from pipeline.types import SourceFile

_SHARE_OF_TESTS = 8
"""One in so many parts of the budget is kept for tests, whose style a new test follows."""
_LEAST = 400
"""Tokens; less room than this is no room for parts of a file."""
_PARTS = 12
"""Into about how many parts the room for a file is divided."""
_WORD = re.compile(r"[^\W\d]\w{2,79}")
_SCOUT_WEIGHT = 3.0
"""What it counts that the scout found a part relevant: about as much as a rare word."""


@dataclass(frozen=True)
class FileBudget:
    """What one file may take."""

    path: str
    tokens: int
    """As many as the file has, or less: then it enters in parts."""


def pack(
    order: Sequence[str],
    tokens: Mapping[str, int],
    budget: int,
    *,
    tests: AbstractSet[str] = frozenset(),
    named: AbstractSet[str] = frozenset(),
) -> tuple[list[FileBudget], list[str]]:
    """Which of `order` enter into `budget` tokens, sources before tests, and which are left.

    Files that the issue names always enter, with at least an equal share of the budget each; they
    keep their place in the order. Of the others each enters whole in turn when it fits, or in parts
    when it alone exceeds the budget. What sources leave free goes to the tests.
    """
    sources = [path for path in order if path not in tests]
    rest = [path for path in order if path in tests]
    kept = min(budget // _SHARE_OF_TESTS, sum(tokens[path] for path in rest))
    budgets = _fill(sources, tokens, budget - kept, named)
    left = budget - sum(room.tokens for room in budgets)
    budgets += _fill(rest, tokens, left, named)
    taken = {room.path for room in budgets}
    return budgets, [path for path in order if path not in taken]


def _fill(
    order: Sequence[str], tokens: Mapping[str, int], budget: int, named: AbstractSet[str]
) -> list[FileBudget]:
    sure = sorted((path for path in order if path in named), key=lambda path: tokens[path])
    given: dict[str, int] = {}
    free = budget
    for at, path in enumerate(sure):  # the small first: what they do not need goes to the large
        given[path] = min(tokens[path], max(free // (len(sure) - at), min(free, 1)))
        free -= given[path]
    for path in order:
        if path in given:
            continue
        if tokens[path] <= free:
            given[path] = tokens[path]
        elif tokens[path] > budget and free >= _LEAST:
            given[path] = free
        else:
            continue
        free -= given[path]
    return [FileBudget(path, given[path]) for path in order if given.get(path)]


async def fit_file(
    file: SourceFile, room: int, *, about: str, lines: Sequence[tuple[int, int]] = ()
) -> SourceFile:
    """`file`, or of a file with more than `room` tokens the parts that matter, saying so.

    Parts are cut at definitions; those that share the most with `about` (the issue and the
    verdict) or lie within `lines` are shown, in the file's order, with what is left out told.
    """
    if file.tokens <= room:
        return file
    return await asyncio.to_thread(_select_parts, file, room, about, lines)


def _select_parts(
    file: SourceFile, room: int, about: str, lines: Sequence[tuple[int, int]]
) -> SourceFile:
    parts = split_file(file, max(100, room // _PARTS))
    worth = _worth(parts, about, lines)
    taken: list[Piece] = []
    free = room
    for part in sorted(parts, key=lambda part: (-worth[part.number], part.number)):
        cost = part.tokens + estimate_tokens(_gap(part.first, part.last))
        if cost <= free:
            taken.append(part)
            free -= cost
    text = _join_parts(sorted(taken, key=lambda part: part.number), parts[-1].last)
    return SourceFile(path=file.path, text=text, tokens=estimate_tokens(text), partial=True)


def _worth(
    parts: Sequence[Piece], about: str, lines: Sequence[tuple[int, int]]
) -> dict[int, float]:
    wanted = Counter(word.lower() for word in _WORD.findall(about))
    held = {p.number: {w.lower() for w in _WORD.findall(p.text)} & wanted.keys() for p in parts}
    spread = Counter(word for words in held.values() for word in words)
    worth: dict[int, float] = {}
    for part in parts:
        score = sum(log(1 + len(parts) / spread[word]) for word in held[part.number])
        read = any(first <= part.last and part.first <= last for first, last in lines)
        # The beginning holds what the rest imports.
        worth[part.number] = score + _SCOUT_WEIGHT * read + (part.number == 1)
    return worth


def _join_parts(parts: Sequence[Piece], end: int) -> str:
    """The parts without what neighbours repeat, each gap told in a line of its own."""
    sections: list[str] = []
    last = 0
    for part in parts:
        if part.first > last + 1:
            sections.append(_gap(last + 1, part.first - 1))
        body = part.text.split("\n")[max(0, last + 1 - part.first) :]
        sections.append("\n".join(body).rstrip("\n") + "\n")
        last = max(last, part.last)
    if last < end:
        sections.append(_gap(last + 1, end))
    return "".join(sections)


def _gap(first: int, last: int) -> str:
    return f"[... lines {first} to {last} are left out ...]\n"
