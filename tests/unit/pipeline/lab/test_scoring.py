"""Scores of selection methods, and their report."""

import json
from pathlib import Path

import pytest

from pipeline.lab.dataset import Dataset, read_dataset
from pipeline.lab.lab_report import render_figures, render_markdown, write_report
from pipeline.lab.predictions import (
    METHODS,
    CaseBuilder,
    chance_of_right,
    evaluate,
    log_odds_of_right,
    majority,
    record,
    shortest,
)
from pipeline.lab.scoring import (
    assemble,
    brier_score,
    calibration_error,
    chance_error,
    coverage_at_k,
    gap_closed,
    gap_interval,
    interval,
    reliability_curve,
)
from tests.support.data.evaluation import RIGHT, Files


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    files = Files(tmp_path)
    return read_dataset(files.instances, files.predictions, files.labels)


def test_random_oracle_and_members_are_reckoned_over_all_instances(data: Dataset) -> None:
    report = evaluate(data).report
    assert (report.instances, report.members) == (4, 3)
    # Right: of three members, two on `one`, one each on `two` and `four`, none on `three`.
    assert report.random == pytest.approx(100 * (2 / 3 + 1 / 3 + 0 + 1 / 3) / 4)
    assert report.oracle == 75
    assert report.best_member == 50
    assert report.member_scores == {"alpha": 50, "beta": 50, "gamma": 0}


def test_majority_counts_ties_as_a_draw_by_lot(data: Dataset) -> None:
    assert [
        chance_of_right(case, majority) for case in CaseBuilder(data).build_all()
    ] == pytest.approx([1, 1 / 3, 0, 0])
    score = evaluate(data).report.methods["majority"]
    assert score.score == pytest.approx(100 / 3)
    assert score.gap_closed == pytest.approx(100 * (100 / 3 - 100 / 3) / (75 - 100 / 3))


def test_the_shortest_diff_wins_by_length(data: Dataset) -> None:
    one = CaseBuilder(data).build_all()[0]
    lengths = [len(diff) for diff in one.diffs]
    assert shortest(one) == [i for i, n in enumerate(lengths) if n == min(lengths)]


def test_records_come_from_other_repositories_alone(data: Dataset) -> None:
    one, two, _, four = CaseBuilder(data).build_all()
    # On `one`, alpha is right in 1 and beta in 1 of the other three, gamma in none.
    assert one.record == pytest.approx(
        (log_odds_of_right(1, 3), log_odds_of_right(1, 3), log_odds_of_right(0, 3))
    )
    # `three` and `four` share a repository: only two instances are left.
    assert four.record == pytest.approx(
        (log_odds_of_right(2, 2), log_odds_of_right(1, 2), log_odds_of_right(0, 2))
    )
    assert record(two) == [1]


def test_changing_a_label_changes_nothing_of_how_its_own_repository_is_chosen(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path)
    before = evaluate(read_dataset(files.instances, files.predictions, files.labels))
    labels = {"alpha": ["one", "two"], "beta": ["one"], "gamma": ["four"]}
    files.labels.write_text(json.dumps(labels))
    after = evaluate(read_dataset(files.instances, files.predictions, files.labels))
    for method in METHODS:
        assert dict(before.chosen[method])["four"] == dict(after.chosen[method])["four"]


def test_every_method_is_scored_and_its_choices_are_given(data: Dataset) -> None:
    found = evaluate(data)
    assert set(found.report.methods) == set(METHODS) == set(found.chosen)
    for score in found.report.methods.values():
        assert score.ci[0] <= score.score <= score.ci[1]
    assert dict(found.chosen["majority"]) == {
        "one": RIGHT,
        "two": RIGHT,
        "three": "",
        "four": dict(found.chosen["majority"])["four"],
    }


def test_coverage_is_the_unbiased_estimator() -> None:
    assert coverage_at_k(1, 4, 1) == pytest.approx(1 / 4)
    assert coverage_at_k(1, 4, 2) == pytest.approx(1 / 2)
    assert coverage_at_k(2, 4, 2) == pytest.approx(1 - 1 / 6)
    assert coverage_at_k(0, 4, 4) == 0
    assert coverage_at_k(1, 4, 4) == 1


def test_the_gap_closed_is_none_without_a_gap() -> None:
    assert gap_closed(50, 40, 80) == 25
    assert gap_closed(30, 40, 80) == -25
    assert gap_closed(50, 50, 50) is None


def test_intervals_are_the_same_each_time_and_hold_the_mean() -> None:
    values = [1.0, 0.0] * 50
    assert interval(values) == interval(values)
    low, high = interval(values)
    assert 35 < low < 45 < 55 < high < 65
    assert interval([1.0] * 9) == (100, 100)
    assert interval([]) == (0, 0)
    assert gap_interval([1.0] * 9, [0.0] * 9, [1.0] * 9) == (100, 100)


def test_calibration_is_the_distance_from_the_diagonal_by_choices() -> None:
    points = [(0.95, 1.0), (0.95, 0.0), (0.15, 0.0), (0.15, 0.0)]
    assert [b.right for b in reliability_curve(points)] == [0.0, 0.5]
    assert calibration_error(reliability_curve(points)) == pytest.approx((0.15 * 2 + 0.45 * 2) / 4)
    assert reliability_curve([(1.0, 1.0)])[0].choices == 1
    assert calibration_error([]) == 0
    assert brier_score(points) == pytest.approx((0.05**2 + 0.95**2 + 2 * 0.15**2) / 4)
    assert 0.02 < chance_error([n / 400 for n in range(400)]) < 0.1


def test_the_report_shows_a_bias_that_ranges_do_not() -> None:
    stated = [(0.5, 1.0), (0.5, 1.0), (0.6, 0.0), (0.8, 1.0)]
    report = assemble(members={"a": [1.0, 0.0]}, methods={}, stated={"confidence": stated})
    told = render_markdown(report)
    assert "60.0 % stated and 75.0 % right on average" in told
    assert "Brier score 0.225" in told
    assert report.calibration["confidence"].brier == pytest.approx(0.225)


def test_the_folder_holds_report_figures_and_predictions(data: Dataset, tmp_path: Path) -> None:
    found = evaluate(data)
    write_report(tmp_path / "out", found.report, found.chosen)
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["methods"]["majority"]["score"] == pytest.approx(100 / 3)
    rows = (tmp_path / "out/predictions/majority.jsonl").read_text().splitlines()
    first = json.loads(rows[0])
    assert first == {
        "instance_id": "one",
        "model_name_or_path": "capuchin-majority",
        "model_patch": RIGHT,
    }
    assert len(rows) == 4
    for name in ("methods.svg", "candidates.svg", "calibration.svg"):
        assert "<svg" in (tmp_path / "out" / name).read_text()


def test_names_are_escaped_in_report_and_figures(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.predict("<b>", {})
    files.labels.write_text(json.dumps({"<b>": [], "alpha": ["one"]}))
    files.ensembles.write_text(json.dumps({"x": ["<b>", "alpha"]}))
    data = read_dataset(files.instances, files.predictions, files.labels, f"{files.ensembles}:x")
    report = evaluate(data).report
    assert "&lt;b&gt;" in render_markdown(report)
    assert all(
        "<b>" not in text for text in (render_markdown(report), *render_figures(report).values())
    )
