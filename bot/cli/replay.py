"""`capuchin replay BUNDLE`: votes and selection again from a run's bundle, without any model."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from bot.cli import Commands
from bot.cli.local_run import FAILED, FIXED, NO_FIX, USAGE, say
from bot.cli.options import add_selection
from bot.cli.terminal import printable
from bot.comments.vote_table import matrix
from pipeline.bundle.read import BadBundle, read_bundle
from pipeline.bundle.replay import NotKept, Replayed, replay


class Told(BaseModel):
    """What `--json` prints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    chosen: str | None
    """The edit's name; null when none may be proposed, for `reason`."""
    reason: str
    decided_by: str
    confidence: float
    order: tuple[str, ...]
    equal: bool | None
    """Whether it is the verdict that the bundle holds; null where it holds none by this method."""
    recorded: str | None
    """The edit that the run chose by this method."""
    capuchin: str
    """The version that made the bundle."""


def register(subparsers: Commands) -> None:
    """Adds the command to `capuchin`."""
    parser = subparsers.add_parser(
        "replay",
        help="vote and choose again from a run's bundle",
        description="Asks no model and runs nothing. Exit codes: 0 an edit is chosen, 3 none, "
        "1 the verdict is not the recorded one or cannot be made again, 2 no bundle.",
    )
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="run.tar.zst")
    add_selection(parser, "choose in this way instead")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(command(args))


async def command(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    try:
        bundle = await asyncio.to_thread(read_bundle, args.bundle)
        found = await replay(bundle.documents, args.selection)
    except BadBundle as problem:
        say(str(problem))
        return USAGE
    except NotKept as missing:
        say(f"{args.bundle} does not hold {missing}: this verdict cannot be made again from it.")
        return FAILED
    told = _told(found, str(bundle.manifest.get("capuchin", "")))
    if args.json:
        sys.stdout.write(told.model_dump_json(indent=1) + "\n")
    else:
        judged = found.judged
        table = matrix(judged.table, judged.chosen, judged.verdict.standings)
        sys.stdout.write(printable(f"{table}\n\n{_sentence(told)}\n"))
    if told.equal is False:
        return FAILED
    return NO_FIX if told.chosen is None else FIXED


def _told(found: Replayed, version: str) -> Told:
    verdict, candidates = found.judged.verdict, found.judged.table.candidates
    chosen, recorded = found.judged.chosen, found.recorded
    before = None if recorded is None or recorded.chosen is None else recorded.chosen
    return Told(
        method=verdict.method,
        chosen=chosen.name if chosen else None,
        reason=verdict.reason or "",
        decided_by=verdict.decided_by,
        confidence=verdict.confidence,
        order=tuple(candidates[c].name for c in verdict.order),
        equal=found.equal,
        recorded=candidates[before].name
        if before is not None and before < len(candidates)
        else None,
        capuchin=version,
    )


def _sentence(told: Told) -> str:
    what = f"{told.method}: {told.chosen or f'none ({told.reason})'}."
    if told.equal is None:
        return f"{what} The run did not choose in this way."
    same = "The recorded verdict is the same." if told.equal else "The recorded verdict is another."
    return f"{what} {same}"
