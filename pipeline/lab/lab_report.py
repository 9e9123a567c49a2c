"""Writes an evaluation: report, figures, and the chosen edits as predictions."""

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from pipeline.lab.recall import render_localisation, render_recall_svg
from pipeline.lab.render import PER_CENT, Points, bar_chart, line_chart, section, table
from pipeline.lab.scoring import MethodScore, Report
from pipeline.lab.strategies import render_strategies, render_strategies_figure
from prompts.text import pluralize

_DEPTH = "edits of each machine, at most"


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
    """File name to SVG: after CodeMonkeys' Figures 5 and 6, SWE-Reasoner's Figure 8, and the
    reliability curve."""
    rows: list[tuple[str, float, tuple[float, float] | None]] = [
        ("oracle", report.oracle, None),
        *((name, m.score, m.ci) for name, m in _by_score(report.methods)),
        ("best single member", report.best_member, None),
        ("random", report.random, None),
    ]
    found = {"methods.svg": bar_chart("Ways of choosing", PER_CENT, rows)}
    lines: dict[str, tuple[str, str, Mapping[str, Points]]] = {
        "candidates": (
            "Coverage and score by number of candidates",
            "candidates for each instance",
            _list_candidates(report),
        ),
        "dollars": (
            "Coverage by dollars", "US dollars an instance, for tests and edits", report.dollars
        ),
        "revisions": ("Coverage by serial and parallel work", _DEPTH, _number(report.serial)),
        "revisions_voted": (
            "Majority voting by serial and parallel work", _DEPTH, _number(report.serial_voted)
        ),
    }  # fmt: skip
    found |= {
        f"{name}.svg": line_chart(title, x, PER_CENT, series)
        for name, (title, x, series) in lines.items()
        if series
    }
    if report.stages:
        steps = [(name, value, None) for name, value in report.stages.items()]
        found["stages.svg"] = bar_chart("How far each step gets", PER_CENT, steps)
    if report.recall:
        found["recall.svg"] = render_recall_svg(
            "Recall of the reference edit's files after ranking", {"ranked": report.recall}
        )
    if report.compressions:
        found["compression.svg"] = _compression_chart(report.compressions)
    if figure := render_strategies_figure(report.strategies):
        found["strategies.svg"] = figure
    if report.calibration:
        found["calibration.svg"] = line_chart(
            "Confidence and how often it is right",
            "stated confidence",
            "share that is right",
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


def _list_candidates(report: Report) -> dict[str, Points]:
    series: dict[str, Points] = {}
    if report.curve:
        series["oracle (coverage)"] = [(p.k, p.coverage) for p in report.curve]
        for name in report.curve[0].scores:
            series[name] = [(p.k, p.scores[name]) for p in report.curve]
    return series


def _number(serial: Mapping[str, Sequence[float]]) -> dict[str, Points]:
    """The values of each name, counted from 1."""
    return {name: list(enumerate(values, 1)) for name, values in serial.items()}


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
    return bar_chart("Tokens searched for each token shown", PER_CENT, rows)


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
