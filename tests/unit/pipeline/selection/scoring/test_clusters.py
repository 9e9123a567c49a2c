from __future__ import annotations

import pytest

from pipeline.selection.scoring.canonical import CanonicalEdit, normalise
from pipeline.selection.scoring.features import (
    Cluster,
    best,
    clusters,
    compute_text_evidence,
    edit_profile,
    means,
    medoid,
    similarities,
)
from tests.support.data.diffs import diff_of

BASE = "def f(a):\n    return a\n"


def form(line: str) -> CanonicalEdit:
    return normalise(diff_of(BASE, BASE.replace("return a", line)))


def test_equal_edits_are_one_candidate_with_more_support() -> None:
    keys = [form(text).key for text in ("return a + 1", "return 2", "return a+1  # one more")]
    found = clusters(keys)
    assert found == [Cluster((0, 2)), Cluster((1,))]
    assert [cluster.support for cluster in found] == [2, 1]
    assert clusters([]) == []


def test_similarity_is_one_with_itself_and_nothing_with_what_shares_nothing() -> None:
    one, other = form("return a + 1"), normalise(diff_of("x = 1\n", "x = 2\n", "b.js"))
    matrix = similarities([edit_profile(f).tokens for f in (one, other, one)])
    assert matrix == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    assert means(matrix) == [0.5, 0, 0.5]
    assert similarities([frozenset(), frozenset()]) == [[1, 0], [0, 1]]
    assert similarities([]) == means([]) == []


def test_similarity_counts_elements_that_are_repeated() -> None:
    bags = [frozenset({1, 2, 3}), frozenset({2, 3, 4}), frozenset({3, 9})]
    assert similarities(bags)[0] == [1, pytest.approx(2 / 4), pytest.approx(1 / 4)]


def test_the_medoid_is_most_like_all_others() -> None:
    forms = [form(f"return g({inside})") for inside in ("a, 1", "a, 1, 2", "b * 7 / c", "a, 1, 3")]
    assert medoid(forms) == [0]
    assert medoid([forms[2]]) == [0]
    assert medoid([]) == []


def test_the_best_are_all_that_score_highest() -> None:
    assert best([0, 1, 2], [1.0, 3.0, 3.0]) == [1, 2]
    assert best([0, 2], [1.0, 9.0, 1.0]) == [0, 2]


def test_evidence_counts_support_agreement_and_records() -> None:
    forms = [form("return a + 1"), form("return a+1"), form("return 2")]
    evidence = compute_text_evidence(forms, "f should return 2", record=[0.5, 1.0, -3.0])
    shares = [row["share"] for row in evidence.rows]
    assert shares == [0.5, 0.5, 0]
    assert [row["alone"] for row in evidence.rows] == [0, 0, 1]
    assert [row["record_best"] for row in evidence.rows] == [1, 1, -3]
    assert evidence.rows[0]["record_share"] == 1
    assert evidence.agreement["distinct"] == pytest.approx(2 / 3)
    assert evidence.agreement["places_agreement"] == 1


def test_edits_that_are_all_equal_agree_wholly_and_none_at_all_is_no_evidence() -> None:
    same = compute_text_evidence([form("return 2")] * 3)
    assert same.agreement["entropy"] == 0
    assert same.agreement["tokens_agreement"] == 1
    assert compute_text_evidence([]).rows == ()
