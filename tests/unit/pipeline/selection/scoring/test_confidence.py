"""The probability that a choice is right, and its correction."""

import math

import pytest

from pipeline.lab.scoring import calibration_error
from pipeline.selection.scoring.canonical import CanonicalEdit, normalise
from pipeline.selection.scoring.confidence import (
    MIN_OUTCOMES,
    Weights,
    choose,
    confidence,
    fit_recalibration,
    load_shipped_model,
    probability_features,
    ranking,
    recalibrate,
    undo_recalibration,
    weights_for,
)
from pipeline.selection.scoring.features import compute_text_evidence
from tests.support.data.evaluation import edit


def forms(*lines: str) -> list[CanonicalEdit]:
    return [normalise(edit(line)) for line in lines]


def test_the_ranking_is_the_weighted_sum_of_the_evidence() -> None:
    evidence = compute_text_evidence(forms("return 1", "return 1", "return 2"))
    weights = Weights(rank={"support": 2 / math.log(2)}, probability={"bias": 0.0})
    assert ranking(evidence, weights) == [2.0, 2.0, 0.0]
    assert choose(evidence, weights) == [0, 1]
    assert confidence(evidence, weights) == 0.5


def test_more_agreement_means_more_confidence() -> None:
    weights = weights_for(None)
    united = confidence(compute_text_evidence(forms(*["return a + 1"] * 5)), weights)
    split = confidence(
        compute_text_evidence(
            forms("return 1", "raise A", "x = [a]\n    return x", "del a", "pass")
        ),
        weights,
    )
    assert united > 0.8 > split > 0.05


def test_without_candidates_there_is_no_confidence() -> None:
    assert confidence(compute_text_evidence([]), weights_for(None)) == 0
    assert choose(compute_text_evidence([]), weights_for(None)) == []


def test_no_repository_is_judged_by_weights_fitted_on_it() -> None:
    fit = load_shipped_model().fit
    assert weights_for("django/django") == fit.without["django/django"] != fit.whole
    assert weights_for("acme/shop") == weights_for(None) == fit.whole


def test_the_shipped_weights_say_where_they_come_from_and_are_calibrated() -> None:
    fitted = load_shipped_model()
    assert fitted.date
    assert fitted.data
    assert fitted.method
    assert "tests.benchmarks.fitting.fit_confidence" in fitted.command
    assert calibration_error(fitted.curve) < 0.05


def test_every_weight_belongs_to_evidence_that_there_is() -> None:
    evidence = compute_text_evidence(forms("return 1", "return 2"))
    fit = load_shipped_model().fit
    for weights in (fit.whole, *fit.without.values()):
        assert set(weights.rank) <= set(evidence.rows[0])
        assert set(weights.probability) <= set(probability_features(evidence, 0))


def test_it_needs_enough_outcomes_and_moves_towards_them_but_not_all_the_way() -> None:
    wrong = [(0.8, 0.0)] * 20 + [(0.8, 1.0)] * 10
    assert fit_recalibration(wrong[: MIN_OUTCOMES - 1]) is None
    found = fit_recalibration(wrong)
    assert found is not None
    assert found.outcomes == MIN_OUTCOMES
    corrected = recalibrate(0.8, found)
    assert 1 / 3 < corrected < 0.5, "a third was right; the prior holds back a little"
    assert undo_recalibration(corrected, found) == pytest.approx(0.8)


def test_in_a_language_without_data_each_outcome_counts_and_one_moves_little() -> None:
    closed = fit_recalibration([(0.7, 0.0)], "Go")
    assert closed is not None
    assert (closed.outcomes, closed.language) == (1, "Go")
    assert 0.65 < recalibrate(0.7, closed) < 0.7
    many = fit_recalibration([(0.7, 1.0)] * MIN_OUTCOMES, "Go")
    assert many is not None
    assert recalibrate(0.7, many) > 0.8
    assert fit_recalibration([], "Go") is None


def test_what_fits_already_is_hardly_changed_and_extremes_stay_finite() -> None:
    fitting = [(0.75, 1.0)] * 30 + [(0.75, 0.0)] * 10
    found = fit_recalibration(fitting)
    assert found is not None
    assert abs(found.shift) < 0.01
    for outcome in (0.0, 1.0):
        extreme = fit_recalibration([(1 - outcome, outcome)] * 100)
        assert extreme is not None
        assert abs(extreme.shift) <= 4
