"""The evidence that needs neither execution nor model; clusters; extent."""

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, repeat
from statistics import fmean
from typing import NamedTuple

from pipeline.codebase.unified_diff import FileDiff, parse_diff
from pipeline.edits.suspicious import is_changelog, is_irrelevant
from pipeline.languages.conventions import is_test
from pipeline.selection.scoring.canonical import CanonicalEdit


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


def token_bag(form: CanonicalEdit) -> Bag:
    """Neighbouring tokens on added and removed lines: what similarity is computed from."""
    found = (change for file in form.files for change in file.changes)
    counted: Counter[Hashable] = Counter()
    for change in found:
        for sign, units in (("-", change.units_removed), ("+", change.units_added)):
            for unit in units:
                counted.update(zip(repeat(sign), unit, unit[1:], strict=False))
    return _to_bag(counted)


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
    average = means(similarities([token_bag(form) for form in forms]))
    return best(range(len(forms)), average)


def best(candidates: Iterable[int], score: Sequence[float]) -> list[int]:
    """Those of `candidates` with the highest score, up to rounding."""
    pool = list(candidates)
    top = max((score[c] for c in pool), default=0.0)
    return [c for c in pool if score[c] >= top - 1e-9]


def _to_bag(counted: Counter[Hashable]) -> Bag:
    once = (hash(element) for element in counted)
    more = (
        hash((element, number))
        for element, count in counted.items()
        if count > 1
        for number in range(1, count)
    )
    # Only the beginning of a huge edit counts.
    return frozenset(islice(chain(once, more), 20_000))


_CHECKING = re.compile(
    r"\bdef test|\bfunc Test|(?i:assert)|\braises\(|^[ \t]*>>> |\brefute\b|\bshould[A-Z]"
    r"|\b(?:BOOST_|Q|TEST_)?(?:CHECK|REQUIRE|VERIFY|COMPARE|FAIL)\w* *\(|[.#]expect\w*\("
    r"|\b(?:it|test|describe|expect|should|TEST|TEST_F|EXPECT_\w+|ASSERT_\w+)\b *[(\"']"
    r"|@Test\b|\[(?:Test|Fact|Theory)\b|\b(?:Assert|require)\.|\bt\.(?:Error|Fatal|Run)",
    re.MULTILINE,
)
"""In lines that add to a test, in any of the languages with a grammar."""


class Extent(NamedTuple):
    """The lines that an edit adds and removes."""

    source: int
    """Lines in files that change the program's behaviour."""
    companions: frozenset[str]
    """Which of tests with what they read, documentation and the changelog it adds to or mends;
    empty if it deletes a file of one."""


@lru_cache(maxsize=256)
def measure_extent(diff: str) -> Extent:
    files = parse_diff(diff)
    source = [file for file in files if not is_irrelevant(file)] or files
    beside = [file for file in files if is_irrelevant(file) and (file.old or "/" in file.path)]
    changed = sum(len(_list_lines(file, "+-")) for file in source)
    kept = all(file.new and _list_lines(file, "+") for file in beside)
    companions = {_kind_of(file) for file in beside} if kept else set[str]()
    return Extent(source=changed, companions=frozenset(companions - {""}))


def _kind_of(file: FileDiff) -> str:
    """Empty for a file beside tests that neither adds a check nor mends what was there."""
    if is_test(file.path):
        added = "\n".join(_list_lines(file, "+"))
        mends = added and _list_lines(file, "-")
        return "tests" if mends or _CHECKING.search(added) else ""
    return "the changelog" if is_changelog(file.path) else "documentation"


def _list_lines(file: FileDiff, markers: str) -> list[str]:
    return [text for hunk in file.hunks for marker, text in hunk.lines if marker in markers]


_WORD = re.compile(r"[A-Za-z_]\w+")


@dataclass(frozen=True)
class EditFeatures:
    """Sizes are natural logarithms of a count plus one; the others are 0 or 1."""

    added: float
    removed: float
    tests: float
    irrelevant_files: float
    """It includes tests, documents or leftover scripts; thirty count as one."""
    file_named: float
    """The issue names a file that it changes."""


def edit_features(form: CanonicalEdit, words: frozenset[str]) -> EditFeatures:
    """The features of one edit, for an issue with these words."""
    found = [change for file in form.files for change in file.changes]
    added = [token for change in found for token in change.added]
    removed = [token for change in found for token in change.removed]
    stems = {file.path.rpartition("/")[2].partition(".")[0] for file in form.files}
    return EditFeatures(
        added=math.log1p(len(added)),
        removed=math.log1p(len(removed)),
        tests=float(any(is_test(path) for path in form.irrelevant_files)),
        irrelevant_files=float(bool(form.irrelevant_files)),
        file_named=float(bool(stems & words)),
    )


FeatureRow = dict[str, float]


@dataclass(frozen=True)
class TextEvidence:
    """Candidates for one issue, compared with each other."""

    groups: tuple[Cluster, ...]
    rows: tuple[FeatureRow, ...]
    """By candidate: the features that speak for it rather than another."""
    agreement: FeatureRow
    """The features that all candidates share: how far they agree."""


def compute_independent_evidence(
    forms: Sequence[CanonicalEdit], sources: Sequence[Hashable], issue: str = ""
) -> TextEvidence:
    """The evidence for each of `forms`, where equal edits of one source count once.

    `sources` has one for each form. Agreement then means that independent sources agree.
    """
    first: dict[tuple[Hashable, str], int] = {}
    counted: list[int] = []
    for source, form in zip(sources, forms, strict=True):
        counted.append(first.setdefault((source, form.key), len(first)))
    kept = [counted.index(at) for at in range(len(first))]
    found = compute_text_evidence([forms[c] for c in kept], issue)
    members = [
        tuple(c for c, at in enumerate(counted) if at in group.members) for group in found.groups
    ]
    return TextEvidence(
        groups=tuple(Cluster(group) for group in members),
        rows=tuple(found.rows[at] for at in counted),
        agreement=found.agreement,
    )


def compute_text_evidence(forms: Sequence[CanonicalEdit], issue: str = "") -> TextEvidence:
    """The evidence for each of `forms`, the candidates for `issue`."""
    groups = tuple(clusters([form.key for form in forms]))
    alike = similarities([token_bag(form) for form in forms])
    average = means(alike)
    middle = fmean(average) if average else 0.0
    words = frozenset(_WORD.findall(issue[:100_000]))
    rows: list[FeatureRow] = [{**vars(edit_features(form, words))} for form in forms]
    for member, row in enumerate(rows):
        others = alike[member][:member] + alike[member][member + 1 :]
        row["similarity_mean"] = average[member]
        row["similarity_beyond"] = average[member] - middle
        row["similarity_nearest"] = max(others, default=0.0)
    for group in groups:
        for member in group.members:
            rows[member]["support"] = math.log(group.support)
    agreement = {
        "candidates": math.log(len(forms)) if forms else 0.0,
        "distinct": len(groups) / max(len(forms), 1),
        "similarity": middle,
    }
    return TextEvidence(groups, tuple(rows), agreement)
