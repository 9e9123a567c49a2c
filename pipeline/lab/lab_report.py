"""Writes an evaluation: report, figures, and the chosen edits as predictions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from pipeline.codebase.text import pluralize
from pipeline.lab.plots import PERCENTS, Axis, bar_chart, line_chart
from pipeline.lab.recall import render_localisation, render_recall_svg
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
        "Scores are per cent resolved; ties count as a draw by lot. Intervals are 95 %, bootstrap "
        "over instances. The gap is that between choosing by lot and an oracle.\n",
        "| method | score | interval | gap closed | interval |",
        "|---|---|---|---|---|",
        f"| oracle | {report.oracle:.1f} | | 100 % | |",
        *(_row(name, m) for name, m in _by_score(report.methods)),
        f"| best single member, in hindsight: {escape(report.best_member_name)} "
        f"| {report.best_member:.1f} | | | |",
        f"| random | {report.random:.1f} | | 0 % | |",
        "",
        "## Members\n",
        "| member | score |",
        "|---|---|",
        *(
            f"| {escape(name)} | {score:.1f} |"
            for name, score in sorted(report.member_scores.items(), key=lambda item: -item[1])
        ),
        "",
        *_stages(report),
        *_recall(report),
        *render_localisation(report.localisation),
        *render_strategies(report.strategies),
        *render_difficulty(report.difficulty),
        *_comparison(report),
        *_calibration(report),
        *_curve(report),
        *_serial("Coverage after so many edits of each machine", report.serial),
        *_serial(
            "Majority voting with tests after so many edits of each machine", report.serial_voted
        ),
        *_dollars(report),
    ]
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
    per_cent = Axis("instances resolved, %", 0, 100, PERCENTS)
    found = {"methods.svg": bar_chart("Ways of choosing", per_cent, rows)}
    if report.curve:
        found["candidates.svg"] = _candidates(report, per_cent)
    if report.stages:
        steps = [(name, value, None) for name, value in report.stages.items()]
        found["stages.svg"] = bar_chart("How far each step gets", per_cent, steps, left=460)
    if report.recall:
        found["ranked_context.svg"] = render_recall_svg(
            "Recall of the reference edit's files after ranking", {"ranked": report.recall}
        )
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
    found |= _by_budget_and_difficulty(report)
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


def _by_budget_and_difficulty(report: Report) -> dict[str, str]:
    """SWE-Reasoner, Figures 6 to 9."""
    figure = render_strategies_figure(report.strategies)
    found = {"strategies.svg": figure} if figure else {}
    return found | render_difficulty_figures(report.difficulty)


def _by_score(methods: Mapping[str, MethodScore]) -> list[tuple[str, MethodScore]]:
    return sorted(methods.items(), key=lambda item: -item[1].score)


def _row(name: str, m: MethodScore) -> str:
    closed = "" if m.gap_closed is None else f"{m.gap_closed:.0f} %"
    sure = "" if m.gap_closed is None else f"{m.gap_closed_ci[0]:.0f} to {m.gap_closed_ci[1]:.0f} %"
    return f"| {name} | {m.score:.1f} | {m.ci[0]:.1f} to {m.ci[1]:.1f} | {closed} | {sure} |"


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


def _stages(report: Report) -> list[str]:
    """CodeMonkeys, Figure 2."""
    if not report.stages:
        return []
    rows = [f"| {escape(name)} | {value:.1f} |" for name, value in report.stages.items()]
    return ["## How far each step gets\n", "| step | instances, % |", "|---|---|", *rows, ""]


def _recall(report: Report) -> list[str]:
    """CodeMonkeys, Figure 3: recall on the left, compression on the right."""
    if not report.recall:
        return []
    budgets = " | ".join(f"{budget:,}" for budget in report.recall)
    values = " | ".join(f"{value:.1f}" for value in report.recall.values())
    squeezed = "" if report.compression is None else f"{report.compression:.1f}"
    return [
        "## Context after ranking\n",
        "Per cent of instances whose files of the reference edit are all within so many tokens.\n",
        f"| tokens | {budgets} | compression |",
        "|---|" + "--:|" * (len(report.recall) + 1),
        f"| recall | {values} | {squeezed} |",
        "",
    ]


def _dollars(report: Report) -> list[str]:
    """CodeMonkeys, Figure 5, with its axis of dollars."""
    if not report.dollars:
        return []
    depth = max(len(points) for points in report.dollars.values())
    replies = " | ".join(str(d) for d in range(1, depth + 1))
    rows = [
        f"| {name} | {' | '.join(f'${cost:.2f}: {value:.1f}' for cost, value in points)} |"
        for name, points in report.dollars.items()
    ]
    return [
        "## Coverage by dollars\n",
        "Mean cost of an instance's tests and edits, and coverage in per cent, with at most so "
        "many replies of each editing machine.\n",
        f"| | {replies} |",
        "|---|" + "---|" * depth,
        *rows,
        "",
    ]


def _dollars_chart(report: Report, y: Axis) -> str:
    most = max(cost for points in report.dollars.values() for cost, _ in points) or 1.0
    ticks = tuple(round(most * n / 4, 4) for n in range(5))
    axis = Axis("US dollars an instance, for tests and edits", 0, most, ticks)
    return line_chart("Coverage by dollars", axis, y, report.dollars)


def _comparison(report: Report) -> list[str]:
    """CodeMonkeys, Table 2: each method beside each member alone."""
    scores = {"oracle": report.oracle, "random": report.random}
    scores |= {f"**{name}**": m.score for name, m in report.methods.items()}
    scores |= {escape(name): score for name, score in report.member_scores.items()}
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    rows = [f"| {name} | {score:.1f} |" for name, score in ordered]
    return ["## All in one order\n", "| method or member | score |", "|---|---|", *rows, ""]


def _serial(title: str, serial: Mapping[str, Sequence[float]]) -> list[str]:
    """CodeMonkeys, Figure 5: coverage on the left, voting on the right."""
    if not serial:
        return []
    depth = max(len(values) for values in serial.values())
    edits = " | ".join(str(d) for d in range(1, depth + 1))
    rows = [
        f"| {name} | {' | '.join(f'{value:.1f}' for value in values)} |"
        for name, values in serial.items()
    ]
    head = [f"## {title}\n", f"| | {edits} |"]
    return [*head, "|---|" + "---|" * depth, *rows, ""]


def _calibration(report: Report) -> list[str]:
    parts: list[str] = []
    for name, found in report.calibration.items():
        parts += [
            f"## Calibration of {name}\n",
            f"Expected calibration error {found.error:.3f}; a perfectly calibrated confidence "
            f"would show {found.by_chance:.3f} on so few instances, on average. Without ranges: "
            f"{100 * found.stated:.1f} % stated and {100 * found.right:.1f} % right on average, "
            f"Brier score {found.brier:.3f}. Instances of a "
            "repository that weights were fitted on are judged by weights fitted without it.\n",
            "| stated | right | choices |",
            "|---|---|---|",
            *(f"| {b.confidence:.2f} | {b.right:.2f} | {b.choices} |" for b in found.curve),
            "",
        ]
    return parts


def _curve(report: Report) -> list[str]:
    if not report.curve:
        return []
    names = list(report.curve[0].scores)
    return [
        "## Number of candidates\n",
        f"| candidates | coverage | {' | '.join(names)} |",
        "|---|---|" + "---|" * len(names),
        *(
            f"| {p.k} | {p.coverage:.1f} | {' | '.join(f'{p.scores[n]:.1f}' for n in names)} |"
            for p in report.curve
        ),
        "",
    ]
