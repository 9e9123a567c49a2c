"""The tables and figures of `capuchin evaluate --solve`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.cli.display.base import print_progress
from bot.cli.terminal import printable
from bot.settings import Settings
from pipeline.evaluation.bundles import read_run
from pipeline.evaluation.dataset import list_changed_files, read_references
from pipeline.evaluation.grading import GradedInstance
from pipeline.evaluation.predictions import Evaluation
from pipeline.evaluation.recall import Recall, render_svg
from pipeline.evaluation.report import render_markdown, to_json, write_report
from pipeline.evaluation.runs import evaluate_runs
from pipeline.evaluation.solving import (
    SolvedInstance,
    SolveReport,
    build_solve_report,
    list_graded,
    measure_shown,
    render_compression,
    render_summary,
)
from pipeline.evaluation.spending import CostLine, cost_table
from pipeline.models.base import Price
from pipeline.models.profiles import look_up, read_prices
from pipeline.models.spec import parse_specs
from pipeline.types import Account, replace


@dataclass(frozen=True)
class Solved:
    """All that the command reports."""

    report: SolveReport
    found: tuple[SolvedInstance, ...]
    costs: tuple[CostLine, ...]
    shown: Recall
    evaluation: Evaluation | None
    """Of the runs that ended and can be told; None without any."""


async def evaluate_solved(
    found: tuple[SolvedInstance, ...],
    rows: Sequence[GradedInstance],
    instances: Path,
    folder: Path,
    settings: Settings,
) -> Solved:
    """Evaluate the runs in `folder` that ended; writes their labels there.

    Raises:
        BadData: a run's bundle is broken.
        OSError: the labels cannot be written.
    """
    references = await asyncio.to_thread(read_references, instances)
    graded = list_graded(found)
    runs = [await read_run(folder / one.instance_id) for one in graded]
    labels = {one.instance_id: {s: list(r) for s, r in one.labels.items()} for one in graded}
    evaluation = None
    if graded:
        evaluation = await asyncio.to_thread(
            evaluate_runs,
            [run for run in runs if run],
            labels,
            repositories={row.instance_id: row.repo for row in rows},
            references=references,
        )
        text = json.dumps(labels, indent=1) + "\n"
        await asyncio.to_thread((folder / "labels.json").write_text, text, "utf-8")
    accounts = [account for one in graded for account in one.accounts]
    return Solved(
        report=build_solve_report(found),
        found=found,
        costs=tuple(cost_table(accounts, _read_prices(accounts, settings))),
        shown=measure_shown(graded, list_changed_files(references)),
        evaluation=evaluation,
    )


def _read_prices(accounts: Sequence[Account], settings: Settings) -> dict[str, Price]:
    """The list prices of the accounts' models, by the names that the services gave."""
    table = read_prices(settings.prices_file)
    texts = filter(None, (settings.solver_model, settings.scout_model))
    specs = [spec for text in texts for spec in parse_specs(text)]
    prices: dict[str, Price] = {}
    for name in {account.model for account in accounts}:
        spec = next((spec for spec in specs if name.startswith(spec.name)), specs[0])
        prices[name] = look_up(replace(spec, name=name), table).profile.price
    return prices


def write_solved(solved: Solved, out: Path, *, as_json: bool) -> None:
    """Write the tables, the figures and the chosen edits into `out`, and print the tables.

    Raises:
        OSError: a file cannot be written.
    """
    report = solved.report
    text = render_summary(report, solved.costs, solved.shown, solved.found)
    if solved.evaluation:
        write_report(out, solved.evaluation.report, solved.evaluation.chosen)
        text += "\n" + render_markdown(solved.evaluation.report)
    document: dict[str, object] = report.model_dump(mode="json")
    document["costs"] = [
        line._asdict() | {"usage": line.usage.model_dump()} for line in solved.costs
    ]
    document["recall"] = solved.shown.model_dump(mode="json")
    document["selection"] = to_json(solved.evaluation.report) if solved.evaluation else None
    printed = json.dumps(document, indent=1) + "\n"
    rows = [
        {"instance_id": o.instance_id, "model_name_or_path": "capuchin", "model_patch": o.chosen}
        for o in list_graded(solved.found)
    ]
    files = {
        "report.md": text,
        "solve.json": printed,
        "predictions.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
    }
    if solved.shown.ways:
        files["recall.svg"] = render_svg(solved.shown)
        files["compression.svg"] = render_compression(list_graded(solved.found))
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (out / name).write_text(content, encoding="utf-8")
    sys.stdout.write(printed if as_json else printable(text))
    print_progress(f"See {out}/report.md.")
