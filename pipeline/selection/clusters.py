"""Groups of equal edits, and how alike two edits are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeline.selection.align import Change
from pipeline.selection.normalise import Form

_LARGEST_BAG = 20_000
"""Elements of an edit that are compared; a huge edit is known by its beginning."""


@dataclass(frozen=True)
class Cluster:
    """Candidates whose edits are equal after normalisation: one candidate with more support."""

    members: tuple[int, ...]
    """Indices of candidates, ascending; the first stands for all."""

    @property
    def support(self) -> int:
        return len(self.members)


def clusters(keys: Sequence[str]) -> list[Cluster]:
    """Equal `Form.key`s together: most support first, then the earliest candidate."""
    groups: dict[str, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    ordered = sorted(groups.values(), key=lambda members: (-len(members), members[0]))
    return [Cluster(tuple(members)) for members in ordered]


Bag = frozenset[Hashable]
"""A multiset as a set: the second of two equal elements carries a 1, the third a 2."""


@dataclass(frozen=True)
class Profile:
    """What of an edit is compared with others."""

    tokens: Bag
    """Neighbouring tokens on the lines that come and go."""
    lines: Bag
    """The logical lines that come and go."""
    places: Bag
    """The definitions that are edited."""


def profile(form: Form) -> Profile:
    """The parts of `form` that similarity is reckoned from."""
    found = [change for file in form.files for change in file.changes]
    return Profile(
        tokens=_bag(_neighbours(found)),
        lines=_bag(_lines(found)),
        places=frozenset[Hashable](form.places),
    )


def jaccard(a: Bag, b: Bag) -> float:
    """The share of elements that both have, 0 to 1; 0 when either has none."""
    if not a or not b:
        return 0.0
    common = len(a & b)
    return common / (len(a) + len(b) - common)


Matrix = list[list[float]]


def similarities(bags: Sequence[Bag]) -> Matrix:
    """The Jaccard similarity of each with each."""
    known: dict[tuple[Bag, Bag], float] = {}
    matrix = [[1.0] * len(bags) for _ in bags]
    for i, one in enumerate(bags):
        for j, other in enumerate(bags[:i]):
            value = known.get((one, other))
            if value is None:
                value = known[one, other] = known[other, one] = jaccard(one, other)
            matrix[i][j] = matrix[j][i] = value
    return matrix


def means(matrix: Matrix) -> list[float]:
    """Of each row the mean over all others; 0 for one alone."""
    others = max(len(matrix) - 1, 1)
    return [(sum(row) - row[i]) / others for i, row in enumerate(matrix)]


def medoid(forms: Sequence[Form]) -> list[int]:
    """The candidates most like all others by their tokens; several when they are equally so."""
    average = means(similarities([profile(form).tokens for form in forms]))
    return best(range(len(forms)), average)


def best(candidates: Iterable[int], score: Sequence[float]) -> list[int]:
    """Those of `candidates` with the highest score, within rounding."""
    pool = list(candidates)
    top = max((score[c] for c in pool), default=0.0)
    return [c for c in pool if score[c] >= top - 1e-9]


def _neighbours(found: Iterable[Change]) -> Iterable[Hashable]:
    for change in found:
        for sign, units in (("-", change.units_removed), ("+", change.units_added)):
            for unit in units:
                for pair in pairwise(unit):
                    yield (sign, *pair)


def _lines(found: Iterable[Change]) -> Iterable[Hashable]:
    for change in found:
        for sign, units in (("-", change.units_removed), ("+", change.units_added)):
            for unit in units:
                yield (sign, unit)


def _bag(elements: Iterable[Hashable]) -> Bag:
    counted: Counter[Hashable] = Counter()
    result: set[Hashable] = set()
    for element in elements:
        seen = counted[element]
        counted[element] = seen + 1
        result.add((element, seen) if seen else element)
        if len(result) >= _LARGEST_BAG:
            break
    return frozenset(result)
