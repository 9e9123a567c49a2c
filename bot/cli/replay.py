"""`capuchin replay BUNDLE`: repeats the votes and the selection of a run without a model."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import get_args

from bot.cli import FAILED, FIXED, NO_FIX, USAGE, Subparsers
from bot.cli.display import print_progress
from bot.comments.vote_table import render_vote_table
from bot.safe_text import printable
from pipeline.bundle import BadBundle, read_bundle
from pipeline.data.options import SelectionMethod
from pipeline.data.types import NoFix, Selection
from pipeline.replay import NotInBundle, Replay, replay
from pipeline.run_errors import OtherFormat
from pipeline.selection.verdict import name_edits
from sandbox.frozen import Frozen


class ReplayReport(Frozen):
    """The document that `--json` prints."""

    method: str
    chosen: str | None
    """The edit's name; null if none is proposed, for `reason`."""
    reason: str
    decided_by: str
    confidence: float
    order: tuple[str, ...]
    equal: bool | None
    """Whether the verdict equals the recorded one; null if this method has no recorded one."""
    recorded: str | None
    end: str
    """How the run itself ended: `fix`, `unproven`, or why there was no fix; empty: unknown."""
    capuchin: str


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "replay",
        description="Calls no model and runs no tests. Exit codes: 0 an edit was chosen, 3 none, "
        "1 the verdict differs from the recorded one or cannot be repeated, 2 not a bundle.",
    )
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="run.tar.zst")
    parser.add_argument(
        "--selection", choices=get_args(SelectionMethod), help="choose by this method instead"
    )
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(run_command(args))


async def run_command(args: argparse.Namespace) -> int:
    try:
        bundle = await asyncio.to_thread(read_bundle, args.bundle)
        found = await replay(bundle.documents, args.selection)
    except (BadBundle, OtherFormat) as problem:
        print_progress(str(problem))
        return USAGE
    except NotInBundle as missing:
        print_progress(
            f"{args.bundle} does not contain {missing}, so the verdict cannot be repeated."
        )
        return FAILED
    report = _build_report(found, str(bundle.manifest.get("capuchin", "")))
    if args.json:
        sys.stdout.write(report.model_dump_json(indent=1) + "\n")
    else:
        judged, verdict = found.judged, found.judged.verdict
        table = render_vote_table(
            judged.table, judged.chosen, verdict.standings, order=verdict.order
        )
        sys.stdout.write(printable(f"{table}\n\n{_verdict_sentence(report)}\n"))
    if report.equal is False:
        return FAILED
    return NO_FIX if report.chosen is None else FIXED


def _build_report(found: Replay, version: str) -> ReplayReport:
    verdict, recorded = found.judged.verdict, found.recorded
    names = name_edits(found.judged.table, verdict.order)
    before = recorded.chosen if recorded else None
    return ReplayReport(
        method=verdict.method,
        chosen=None if verdict.chosen is None else names[verdict.chosen],
        reason=verdict.reason or "",
        decided_by=verdict.decided_by,
        confidence=verdict.confidence,
        order=tuple(names[c] for c in verdict.order),
        equal=found.equal,
        recorded=names[before] if before is not None and before < len(names) else None,
        end=_name_end(found.end),
        capuchin=version,
    )


def _name_end(end: Selection | NoFix | None) -> str:
    if isinstance(end, Selection):
        return "fix" if end.is_shown else "unproven"
    return end.reason if end else ""


def _verdict_sentence(report: ReplayReport) -> str:
    what = f"{report.method}: {report.chosen or f'none ({report.reason})'}."
    same = "The recorded verdict is the same." if report.equal else "The recorded verdict differs."
    if report.equal is None:
        same = "The run did not use this method."
    ends = {"fix": "with a fix that a test shows", "unproven": "with an unproven edit"}
    how = ends.get(report.end, f"without a fix: {report.end}")
    end = f"The run itself ended {how}." if report.end else ""
    return f"{what} {same} {end}".rstrip()
