"""The evidence for each of several edits that needs neither execution nor a model, as numbers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from pipeline.selection.normalise.canonical import CanonicalEdit
from pipeline.selection.scoring.clusters import (
    Cluster,
    SimilarityMatrix,
    clusters,
    edit_profile,
    means,
    similarities,
)
from pipeline.selection.scoring.features_of_edit import edit_features, words_of

FeatureRow = dict[str, float]

KINDS = ("tokens", "lines", "places")


@dataclass(frozen=True)
class TextEvidence:
    """Candidates for one issue, compared with each other."""

    groups: tuple[Cluster, ...]
    """Clusters, most support first."""
    similarity: dict[str, SimilarityMatrix]
    """Similarity of candidates by kind: `tokens`, `lines`, `places`."""
    rows: tuple[FeatureRow, ...]
    """By candidate: the features that speak for it rather than another."""
    agreement: FeatureRow
    """The features that all candidates share: how far they agree."""


def compute_independent_evidence(
    forms: Sequence[CanonicalEdit], sources: Sequence[Hashable], issue: str = ""
) -> TextEvidence:
    """The evidence for each of `forms`, where equal edits of one source count once.

    `sources` has one for each form. Agreement then means that independent sources agree. Edits of
    a single source have nothing else to agree with: there each counts by itself.
    """
    if len(set(sources)) < 2:
        return compute_text_evidence(forms, issue)
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
        similarity={
            kind: [[matrix[a][b] for b in counted] for a in counted]
            for kind, matrix in found.similarity.items()
        },
        rows=tuple(found.rows[at] for at in counted),
        agreement=found.agreement,
    )


def compute_text_evidence(
    forms: Sequence[CanonicalEdit], issue: str = "", record: Sequence[float] | None = None
) -> TextEvidence:
    """The evidence for each of `forms`, the candidates for `issue`.

    `record`: by candidate, the log-odds that its source's edits for *other* repositories are right,
    if known; without it, all sources count the same.
    """
    groups = tuple(clusters([form.key for form in forms]))
    profiles = [edit_profile(form) for form in forms]
    alike: dict[str, SimilarityMatrix] = {
        "tokens": similarities([p.tokens for p in profiles]),
        "lines": similarities([p.lines for p in profiles]),
        "places": similarities([p.places for p in profiles]),
    }
    words = words_of(issue)
    rows: list[FeatureRow] = [{**vars(edit_features(form, words))} for form in forms]
    _add_sizes(rows)
    _add_support(rows, groups)
    for kind, matrix in alike.items():
        _add_similarity(rows, kind, matrix)
    known = record or [0.0] * len(forms)
    _add_record(rows, groups, known)
    whole = _measure_agreement(groups, alike, len(forms))
    whole["record_mean"] = fmean(known) if known else 0.0
    return TextEvidence(groups, alike, tuple(rows), whole)


def _add_sizes(rows: Sequence[FeatureRow]) -> None:
    """Add how far each size exceeds the median."""
    for size in ("added", "removed") if rows else ():
        middle = median(row[size] for row in rows)
        for row in rows:
            row[f"{size}_beyond"] = max(row[size] - middle, 0.0)


def _add_support(rows: Sequence[FeatureRow], groups: Sequence[Cluster]) -> None:
    others = max(len(rows) - 1, 1)
    for group in groups:
        for member in group.members:
            row = rows[member]
            row["share"] = (group.support - 1) / others
            row["support"] = math.log(group.support)
            row["leads"] = float(group.support == groups[0].support)
            row["alone"] = float(group.support == 1)


def _add_similarity(rows: Sequence[FeatureRow], kind: str, matrix: SimilarityMatrix) -> None:
    average = means(matrix)
    middle = fmean(average) if average else 0.0
    most = max(average, default=0.0)
    for member, row in enumerate(rows):
        others = matrix[member][:member] + matrix[member][member + 1 :]
        row[f"{kind}_mean"] = average[member]
        row[f"{kind}_beyond"] = average[member] - middle
        row[f"{kind}_central"] = float(average[member] >= most - 1e-9)
        row[f"{kind}_nearest"] = max(others, default=0.0)


def _add_record(
    rows: Sequence[FeatureRow], groups: Sequence[Cluster], record: Sequence[float]
) -> None:
    # Sources whose edits are right less often than one in six add almost nothing.
    weight = [max(value + 1.5, 0.0) for value in record]
    total = sum(weight) or 1.0
    for group in groups:
        for member in group.members:
            row = rows[member]
            row["record"] = record[member]
            row["record_best"] = max(record[other] for other in group.members)
            row["record_share"] = sum(weight[other] for other in group.members) / total


def _measure_agreement(
    groups: Sequence[Cluster], alike: dict[str, SimilarityMatrix], count: int
) -> FeatureRow:
    shares = [group.support / count for group in groups]
    entropy = -sum(share * math.log(share) for share in shares)
    whole: FeatureRow = {
        "candidates": math.log(count) if count else 0.0,
        "entropy": entropy / math.log(max(count, 2)),
        "distinct": len(groups) / max(count, 1),
    }
    for kind, matrix in alike.items():
        whole[f"{kind}_agreement"] = fmean(means(matrix)) if matrix else 0.0
    return whole
