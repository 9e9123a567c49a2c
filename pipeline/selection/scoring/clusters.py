"""Clusters of equal edits, and the similarity of two edits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat

from pipeline.selection.normalise.align import TokenChange
from pipeline.selection.normalise.canonical import CanonicalEdit

_MAX_BAG_SIZE = 20_000
"""Elements of an edit that are compared; only the beginning of a huge edit counts."""


@dataclass(frozen=True)
class Cluster:
    """Candidates whose edits are equal after normalisation: one candidate with more support."""

    members: tuple[int, ...]
    """Indices of candidates, ascending; the first represents all."""

    @property
    def support(self) -> int:
        return len(self.members)


def clusters(keys: Sequence[str]) -> list[Cluster]:
    """Cluster candidates by `CanonicalEdit.key`: most support first, then the earliest."""
    groups: dict[str, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    ordered = sorted(groups.values(), key=lambda members: (-len(members), members[0]))
    return [Cluster(tuple(members)) for members in ordered]


Bag = frozenset[int]
"""A multiset as a set of hashes (valid in this process): a count distinguishes equal elements."""


@dataclass(frozen=True)
class EditProfile:
    """The parts of an edit that are compared with other edits."""

    tokens: Bag
    """Neighbouring tokens on added and removed lines."""
    lines: Bag
    """The added and removed logical lines."""
    places: Bag
    """The edited definitions."""


def edit_profile(form: CanonicalEdit) -> EditProfile:
    """The parts of `form` that similarity is computed from."""
    found = [change for file in form.files for change in file.changes]
    return EditProfile(
        tokens=_to_bag(_count_token_pairs(found)),
        lines=_to_bag(Counter(_lines_with_sign(found))),
        places=frozenset(hash(place) for place in form.locations),
    )


SimilarityMatrix = list[list[float]]


def similarities(bags: Sequence[Bag]) -> SimilarityMatrix:
    """The pairwise Jaccard similarities, 0 to 1; 0 between two without elements."""
    # Elements common to all need no search in every pair.
    shared = frozenset[int]().union(*bags[:1]).intersection(*bags[1:])
    rest = [bag - shared for bag in bags]
    matrix = [[1.0] * len(bags) for _ in bags]
    for i, one in enumerate(rest):
        for j, other in enumerate(rest[:i]):
            common = len(shared) + len(one & other)
            total = len(bags[i]) + len(bags[j]) - common
            matrix[i][j] = matrix[j][i] = common / total if total else 0.0
    return matrix


def means(matrix: SimilarityMatrix) -> list[float]:
    """The mean of each row over all others; 0 for a single one."""
    others = max(len(matrix) - 1, 1)
    return [(sum(row) - row[i]) / others for i, row in enumerate(matrix)]


def medoid(forms: Sequence[CanonicalEdit]) -> list[int]:
    """The candidates most similar to all others by tokens; several on a tie."""
    average = means(similarities([edit_profile(form).tokens for form in forms]))
    return best(range(len(forms)), average)


def best(candidates: Iterable[int], score: Sequence[float]) -> list[int]:
    """Those of `candidates` with the highest score, up to rounding."""
    pool = list(candidates)
    top = max((score[c] for c in pool), default=0.0)
    return [c for c in pool if score[c] >= top - 1e-9]


def _lines_with_sign(found: Iterable[TokenChange]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for change in found:
        for unit in change.units_removed:
            yield "-", unit
        for unit in change.units_added:
            yield "+", unit


def _count_token_pairs(found: Iterable[TokenChange]) -> Counter[Hashable]:
    counted: Counter[Hashable] = Counter()
    for sign, unit in _lines_with_sign(found):
        counted.update(zip(repeat(sign), unit, unit[1:], strict=False))
    return counted


def _to_bag(counted: Counter[Hashable]) -> Bag:
    once = (hash(element) for element in counted)
    more = (
        hash((element, number))
        for element, count in counted.items()
        if count > 1
        for number in range(1, count)
    )
    return frozenset(islice(chain(once, more), _MAX_BAG_SIZE))
