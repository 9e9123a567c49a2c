"""Writes an evaluation: report, figures, and the chosen edits as predictions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from pipeline.codebase.text import pluralize
from pipeline.lab.recall import render_localisation, render_recall_svg
from pipeline.lab.render import Axis, bar_chart, line_chart, percent_axis, section, table
from pipeline.lab.scoring import MethodScore, Report
from pipeline.lab.strategies import (
    render_difficulty,
    render_difficulty_figures,
    render_strategies,
    render_strategies_figure,
)

_TENTHS = tuple(n / 10 for n in range(0, 11, 2))


def to_json(report: Report) -> dict[str, object]:
    """The documented fields (random, oracle, best member, methods, in per cent) and the rest.

    Null means unknown: the gap closed when random and oracle score the same.
    """
    return report.model_dump(mode="json")


def render_markdown(report: Report) -> str:
    """The report in Markdown, with tables in the form of CodeMonkeys, Table 2."""
    parts = [
        "# Selection\n",
        f"{pluralize(report.instances, 'instance')}, {pluralize(report.members, 'member')}. "
        "Scores are the per cent of instances resolved; ties are drawn by lot. Intervals are 95 %, "
        "by bootstrap over instances. The gap is that between random choice and an oracle.\n",
        *table(
            ("method", "score", "interval", "gap closed", "interval"),
            [
                ("oracle", f"{report.oracle:.1f}", "", "100 %", ""),
                *(_row(name, m) for name, m in _by_score(report.methods)),
                (
                    f"best single member, in hindsight: {escape(report.best_member_name)}",
                    f"{report.best_member:.1f}", "", "", "",
                ),
                ("random", f"{report.random:.1f}", "", "0 %", ""),
            ],
        ),
        *section("Members", "", ("member", "score"), _sort_scores(report.member_scores)),
        *section(
            "How far each step gets",
            "",
            ("step", "instances, %"),
            [(escape(name), f"{value:.1f}") for name, value in report.stages.items()],
        ),
        *_recall(report),
        *render_localisation(report.localisation),
        *render_strategies(report.strategies),
        *render_difficulty(report.difficulty),
        *_comparison(report),
        *_calibration(report),
        *_curve(report),
        *_serial("Coverage by the number of edits of each machine", report.serial),
        *_serial(
            "Majority voting with tests by the number of edits of each machine",
            report.serial_voted,
        ),
        *_dollars(report),
    ]  # fmt: skip
    return "\n".join(parts)


def render_figures(report: Report) -> dict[str, str]:
    """File name to SVG: after CodeMonkeys' Figures 5 and 6, SWE-Reasoner's Figures 6 to 9, and the
    reliability curve."""
    rows: list[tuple[str, float, tuple[float, float] | None]] = [
        ("oracle", report.oracle, None),
        *((name, m.score, m.ci) for name, m in _by_score(report.methods)),
        ("best single member", report.best_member, None),
        ("random", report.random, None),
    ]
    per_cent = percent_axis("instances resolved, %")
    found = {"methods.svg": bar_chart("Ways of choosing", per_cent, rows)}
    if report.curve:
        found["candidates.svg"] = _candidates(report, per_cent)
    if report.stages:
        steps = [(name, value, None) for name, value in report.stages.items()]
        found["stages.svg"] = bar_chart("How far each step gets", per_cent, steps, left=460)
    if report.recall:
        found["recall.svg"] = render_recall_svg(
            "Recall of the reference edit's files after ranking", {"ranked": report.recall}
        )
    if report.compressions:
        found["compression.svg"] = _compression_chart(report.compressions)
    if report.dollars:
        found["dollars.svg"] = _dollars_chart(report, per_cent)
    if report.serial:
        found["revisions.svg"] = _revisions(
            "Coverage by serial and parallel work", report.serial, per_cent
        )
    if report.serial_voted:
        found["revisions_voted.svg"] = _revisions(
            "Majority voting by serial and parallel work", report.serial_voted, per_cent
        )
    if figure := render_strategies_figure(report.strategies):
        found["strategies.svg"] = figure
    found |= render_difficulty_figures(report.difficulty)
    if report.calibration:
        found["calibration.svg"] = line_chart(
            "Confidence and how often it is right",
            Axis("stated confidence", 0, 1, _TENTHS),
            Axis("share that is right", 0, 1, _TENTHS),
            {
                "perfect": [(0, 0), (1, 1)],
                **{
                    name: [(b.confidence, b.right) for b in shown.curve]
                    for name, shown in report.calibration.items()
                },
            },
        )
    return found


def write_report(
    folder: Path, report: Report, chosen: Mapping[str, tuple[tuple[str, str], ...]]
) -> None:
    """Write report.json, report.md, figures and predictions/METHOD.jsonl to `folder`.

    Predictions are in SWE-bench's format, so that its harness can run them. Raises OSError.
    """
    (folder / "predictions").mkdir(parents=True, exist_ok=True)
    text = json.dumps(to_json(report), indent=1)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8")
    (folder / "report.md").write_text(render_markdown(report), encoding="utf-8")
    for name, svg in render_figures(report).items():
        (folder / name).write_text(svg, encoding="utf-8")
    for method, edits in chosen.items():
        stem = method.replace(",", "").replace(" ", "-")
        rows = (
            {"instance_id": i, "model_name_or_path": f"capuchin-{stem}", "model_patch": diff}
            for i, diff in edits
        )
        body = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "predictions" / f"{stem}.jsonl").write_text(body, encoding="utf-8")


def _by_score(methods: Mapping[str, MethodScore]) -> list[tuple[str, MethodScore]]:
    return sorted(methods.items(), key=lambda item: -item[1].score)


def _sort_scores(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    return [(escape(name), f"{score:.1f}") for name, score in ordered]


def _row(name: str, m: MethodScore) -> tuple[str, ...]:
    closed = sure = ""
    if m.gap_closed is not None:
        closed = f"{m.gap_closed:.0f} %"
        sure = f"{m.gap_closed_ci[0]:.0f} to {m.gap_closed_ci[1]:.0f} %"
    return (name, f"{m.score:.1f}", f"{m.ci[0]:.1f} to {m.ci[1]:.1f}", closed, sure)


def _candidates(report: Report, y: Axis) -> str:
    sizes = tuple(float(point.k) for point in report.curve)
    series = {"oracle (coverage)": [(float(p.k), p.coverage) for p in report.curve]}
    for name in report.curve[0].scores:
        series[name] = [(float(p.k), p.scores[name]) for p in report.curve]
    low = min(sizes) - 1
    return line_chart(
        "Coverage and score by number of candidates",
        Axis("candidates for each instance", low, max(max(sizes), low + 1), sizes),
        y,
        series,
    )


def _revisions(title: str, serial: Mapping[str, Sequence[float]], y: Axis) -> str:
    depth = max(len(values) for values in serial.values())
    sizes = tuple(float(d) for d in range(1, depth + 1))
    series = {name: list(zip(sizes, found, strict=True)) for name, found in serial.items()}
    axis = Axis("edits of each machine, at most", 0, depth, sizes)
    return line_chart(title, axis, y, series)


def _recall(report: Report) -> list[str]:
    """CodeMonkeys, Figure 3: recall on the left, compression on the right."""
    if not report.recall:
        return []
    squeezed = f"{fmean(report.compressions):.1f}" if report.compressions else ""
    return section(
        "Context after ranking",
        "Per cent of instances for which all files of the reference edit fit into the given number "
        "of tokens.",
        ("tokens", *(f"{budget:,}" for budget in report.recall), "compression"),
        [("recall", *(f"{value:.1f}" for value in report.recall.values()), squeezed)],
    )


def _compression_chart(factors: Sequence[float]) -> str:
    """CodeMonkeys, Figure 3, right: the distribution over instances."""
    bounds = (0, 2, 5, 10, 20, 50, 100, math.inf)
    rows = [
        (
            f"{low} to {high}" if high < math.inf else f"more than {low}",
            100 * sum(low < factor <= high for factor in factors) / len(factors),
            None,
        )
        for low, high in pairwise(bounds)
    ]
    return bar_chart("Tokens searched for each token shown", percent_axis("instances, %"), rows)


def _dollars(report: Report) -> list[str]:
    """CodeMonkeys, Figure 5, with its axis of dollars."""
    depth = max(map(len, report.dollars.values()), default=0)
    return section(
        "Coverage by dollars",
        "Mean cost of an instance's tests and edits, and coverage in per cent, by the maximum "
        "number of replies of each editing machine.",
        ("", *map(str, range(1, depth + 1))),
        [
            (name, *(f"${cost:.2f}: {value:.1f}" for cost, value in points))
            for name, points in report.dollars.items()
        ],
    )


def _dollars_chart(report: Report, y: Axis) -> str:
    most = max(cost for points in report.dollars.values() for cost, _ in points) or 1.0
    ticks = tuple(round(most * n / 4, 4) for n in range(5))
    axis = Axis("US dollars an instance, for tests and edits", 0, most, ticks)
    return line_chart("Coverage by dollars", axis, y, report.dollars)


def _comparison(report: Report) -> list[str]:
    """CodeMonkeys, Table 2: each method beside each member alone."""
    scores = {"oracle": report.oracle, "random": report.random}
    scores |= {f"**{name}**": m.score for name, m in report.methods.items()}
    rows = _sort_scores({**scores, **report.member_scores})
    return section("Methods and members by score", "", ("method or member", "score"), rows)


def _serial(title: str, serial: Mapping[str, Sequence[float]]) -> list[str]:
    """CodeMonkeys, Figure 5: coverage on the left, voting on the right."""
    depth = max(map(len, serial.values()), default=0)
    rows = [(name, *(f"{value:.1f}" for value in values)) for name, values in serial.items()]
    return section(title, "", ("", *map(str, range(1, depth + 1))), rows)


def _calibration(report: Report) -> list[str]:
    parts: list[str] = []
    for name, found in report.calibration.items():
        parts += section(
            f"Calibration of {name}",
            f"Expected calibration error {found.error:.3f}; on this number of instances, a "
            f"perfectly calibrated confidence would show {found.by_chance:.3f} on average. Without "
            f"ranges: {100 * found.stated:.1f} % stated and {100 * found.right:.1f} % right on "
            f"average, Brier score {found.brier:.3f}. Instances of a repository that weights were "
            "fitted on are judged by weights fitted without it.",
            ("stated", "right", "choices"),
            [(f"{b.confidence:.2f}", f"{b.right:.2f}", b.choices) for b in found.curve],
        )
    return parts


def _curve(report: Report) -> list[str]:
    names = list(report.curve[0].scores) if report.curve else []
    return section(
        "Number of candidates",
        "",
        ("candidates", "coverage", *names),
        [
            (p.k, f"{p.coverage:.1f}", *(f"{p.scores[name]:.1f}" for name in names))
            for p in report.curve
        ],
    )
