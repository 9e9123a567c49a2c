"""`capuchin fix URL`, or `fix --repo DIR --issue FILE`: one run whose result is files.

Of GitHub it reads the issue and its repository, if one is named; it writes nothing there.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.cli import Commands
from bot.cli.local_run import (
    EXIT_CODES,
    Start,
    WrongUsage,
    config_of,
    leave,
    overridden,
    read_issue,
    repository_of,
    say,
    started,
)
from bot.cli.options import add_choosing, add_input, ended, given
from bot.cli.remote_issue import begun_on_web
from bot.cli.report import as_markdown, report_of
from bot.comments.code_destinations import elsewhere
from bot.comments.pull_request import price_notes
from bot.git.mirrors import Checkout, Mirrors
from bot.git.remote import Remote
from bot.runner.models import check_models
from bot.runner.runner import Workshop
from bot.runner.sandbox import FIX, engine_of
from bot.runner.types import Job, Outcome
from bot.settings import Settings
from bot.storage.draining import Steps
from pipeline.codebase.commit import Codebase
from pipeline.options import Options
from pipeline.store import DirStore, Store
from pipeline.types import Issue, Selection


@dataclass(frozen=True)
class Order:
    """What is to be done, and from which commit."""

    issue: Issue
    start: Start
    checkout: Checkout
    out: Path
    json: bool
    given: Mapping[str, object]
    """Of the pipeline's options; see `overridden`."""


def register(subparsers: Commands) -> None:
    """Adds the command to `capuchin`."""
    parser = subparsers.add_parser(
        "fix",
        help="fix an issue, and write the edit to files",
        description="Works on the last commit of the default branch of an issue's repository, or "
        "of a local one. Opens nothing. Started again with the same --out, it goes on "
        "where it stopped. Exit codes: 0 a fix was chosen, 3 no fix, 4 out of budget, 1 failed, "
        "2 wrong usage.",
    )
    parser.add_argument(
        "url", nargs="?", metavar="URL", help="an issue on GitHub, instead of --repo and --issue"
    )
    add_input(parser, required=False)
    parser.add_argument(
        "--out", type=Path, default=Path("capuchin-run"), metavar="DIR",
        help="for the results (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--samples", type=int, metavar="N", help="how many edits are tried")
    add_choosing(parser)
    parser.add_argument(
        "--all-revisions", action="store_true",
        help="run every test on earlier edits, too; `capuchin evaluate --runs` shows what they do",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print report.json on standard output")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(command(args))


async def command(args: argparse.Namespace, settings: Settings | None = None) -> int:
    """Run the command and return its exit code."""
    return await ended(_fix(args, settings), args)


async def _order(args: argparse.Namespace, settings: Settings, out: Path, store: Store) -> Order:
    overridden(Options(), given(args))
    if bool(args.url) == bool(args.repo or args.issue) or bool(args.repo) != bool(args.issue):
        raise WrongUsage("Give either the URL of an issue, or --repo DIR with --issue FILE.")
    if args.url:
        issue, start, checkout = await begun_on_web(args.url, settings, out, store)
    else:
        repo = await repository_of(args.repo)
        issue, digest = read_issue(args.issue, repo)
        start = await started(repo, digest, out, store)
        checkout = await Mirrors(out).checkout(
            Remote(repo.as_uri()), "local/repository", "HEAD", base=start.base_commit
        )
    return Order(issue, start, checkout, out, json=args.json, given=given(args))


async def _fix(args: argparse.Namespace, settings: Settings | None) -> int:
    settings = settings or Settings.from_env()
    check_models(settings)
    out = await asyncio.to_thread(args.out.resolve)
    store = DirStore(out / "run")
    order = await _order(args, settings, out, store)
    job = await _job(order)
    engine = engine_of(settings, owner=FIX)
    try:
        outcome = await Workshop(settings, engine).solve(job, store, steps=Steps(), say=say)
    finally:
        await engine.close()
    return await asyncio.to_thread(_leave, order, outcome, settings)


async def _job(order: Order) -> Job:
    codebase = await Codebase.open(order.checkout.git_dir, order.checkout.base)
    config = await config_of(codebase)
    return Job(
        run_id=order.start.run_id,
        issue=order.issue,
        codebase=codebase,
        options=overridden(config.options(), order.given),
        setup=config.setup,
        dockerfile=config.dockerfile,
        python=config.python,
    )


def _leave(order: Order, outcome: Outcome, settings: Settings) -> int:
    """Write the results and say how it ended; the exit code."""
    base = order.start.base_commit
    sent = elsewhere(outcome.sent_to, settings, served=False)
    report = report_of(outcome, base, sent)
    files = {
        "report.json": report.model_dump_json(indent=1).encode() + b"\n",
        "report.md": as_markdown(outcome, sent).encode(),
    }
    result = outcome.result
    if isinstance(result, Selection):
        files["patch.diff"] = result.candidate.patch.diff.encode()
        files["reproduction_test.py"] = result.evidence.reproduction.text.encode()
    facts = {"base_commit": base, "image": outcome.image, "outcome": report.outcome}
    leave(order.out, files, facts=facts, issue=order.issue)
    if order.json:
        sys.stdout.write(files["report.json"].decode())
    for note in price_notes(outcome.accounts):
        say(note)
    told = f"{report.title or report.reason}, ${report.dollars:.2f} at list prices"
    say(f"{report.outcome.capitalize()}: {told}. See {order.out}.")
    return EXIT_CODES[report.outcome]
