"""Packs files into a token budget: whole if they fit, else their relevant parts."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import log

from pipeline.context.files.chunks import Piece, split_file
from pipeline.context.tokens import estimate_tokens
from pipeline.data.code_places import SourceFile

_LEAST = 400
"""Tokens; with less room, no part of a file is shown."""
_PARTS = 12
"""About how many parts of a file fill its room."""
_WORD = re.compile(r"[^\W\d]\w{2,79}")


@dataclass(frozen=True)
class FileBudget:
    """How many tokens one file may take."""

    path: str
    tokens: int
    """At most the file's own tokens; with fewer, only parts of it are shown."""


def pack(
    order: Sequence[str],
    tokens: Mapping[str, int],
    budget: int,
    *,
    tests: AbstractSet[str] = frozenset(),
    named: AbstractSet[str] = frozenset(),
) -> tuple[list[FileBudget], list[str]]:
    """Which files of `order` fit `budget` tokens, sources before tests, and which are left out.

    Files that the issue names always fit, with at least an equal share of the budget each; they
    keep their place in the order. The others follow in turn: whole while they fit; the first that
    does not is shown in parts, unless the room is too small for any. Room that the sources leave
    goes to the tests.
    """
    sources = [path for path in order if path not in tests]
    rest = [path for path in order if path in tests]
    # Tests get an eighth: a new test follows their style.
    kept = min(budget // 8, sum(tokens[path] for path in rest))
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
    for at, path in enumerate(sure):  # small files first: large ones get the room that they leave
        given[path] = min(tokens[path], max(free // (len(sure) - at), min(free, 1)))
        free -= given[path]
    for path in order:
        if path in given:
            continue
        if tokens[path] <= free:
            given[path] = tokens[path]
        elif free >= _LEAST:
            given[path] = free
        else:
            continue
        free -= given[path]
    return [FileBudget(path, given[path]) for path in order if given.get(path)]


async def fit_file(
    file: SourceFile, room: int, *, about: str, lines: Sequence[tuple[int, int]] = ()
) -> SourceFile:
    """`file` whole if it has at most `room` tokens, else its relevant parts, marked as such.

    Parts are cut at definitions. Those that share most words with `about` (issue and verdict) or
    lie within `lines` are shown in the file's order; a line stands for each gap.
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
        # The weight of a scout's verdict that a part is relevant: about that of a rare word.
        worth[part.number] = score + 3.0 * read + (part.number == 1)
    return worth


def _join_parts(parts: Sequence[Piece], end: int) -> str:
    """The parts joined, without the lines that neighbours repeat, and with a line for each gap."""
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
