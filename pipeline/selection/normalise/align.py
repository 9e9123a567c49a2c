"""The changes between two lists of logical lines, independent of the amount of context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain

from pipeline.selection.normalise.brackets import CLOSERS, OPENERS
from pipeline.selection.normalise.plain_text import LogicalLine

_MAX_COMPARISONS = 40_000
"""Pairs of lines; a larger region counts as one replacement."""


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

    def with_names(self, names: Mapping[str, str]) -> TokenChange:
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
    head = 0
    most = min(len(old), len(new))
    while head < most and old[head].tokens == new[head].tokens:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail].tokens == new[-1 - tail].tokens:
        tail += 1
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    if not a and not b:
        return []
    if len(a) * len(b) > _MAX_COMPARISONS:
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
    i, j, k, m = _slide_down(old, new, region)
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


def _slide_down(
    old: Sequence[LogicalLine], new: Sequence[LogicalLine], region: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """Move a pure insertion or removal as far down as possible: `a+b|a` is the same as `a|b+a`."""
    i, j, k, m = region
    if i == j:
        while m < len(new) and j < len(old) and new[k].tokens == new[m].tokens == old[j].tokens:
            i, j, k, m = i + 1, j + 1, k + 1, m + 1
    elif k == m:
        while j < len(old) and m < len(new) and old[i].tokens == old[j].tokens == new[m].tokens:
            i, j, k, m = i + 1, j + 1, k + 1, m + 1
    return i, j, k, m


def _with_newline(unit: LogicalLine) -> tuple[str, ...]:
    return (*unit.tokens, "\n")


def _common_prefix_length(a: Sequence[str], b: Sequence[str]) -> int:
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count


def _token_index(lines: Sequence[int], at: int) -> int:
    """The index of a token in its line."""
    first = at
    while first and lines[first - 1] == lines[at]:
        first -= 1
    return at - first
