"""`capuchin fix --repo DIR --issue FILE`: one run on a local repository, without GitHub."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bot.checkout import Mirrors
from bot.engine import engine_of
from bot.local_options import add_choosing, add_input, ended, given
from bot.local_run import (
    EXIT_CODES,
    Start,
    config_of,
    leave,
    overridden,
    read_issue,
    repository_of,
    say,
    started,
)
from bot.remote import Remote
from bot.report import as_markdown, report_of
from bot.settings import Settings
from bot.steps import Steps
from bot.workshop import Job, Outcome, Workshop
from pipeline.codebase import Codebase
from pipeline.options import Options
from pipeline.store import DirStore
from pipeline.types import Issue, Selection

OWNER = "capuchin fix"
"""Whose the containers are: no worker knows this run, and so none may reap them."""
Parser = TypeVar("Parser", bound=argparse.ArgumentParser)


@dataclass(frozen=True)
class Order:
    """The command line, read and checked."""

    repo: Path
    issue: Issue
    digest: str
    out: Path
    json: bool
    given: Mapping[str, object]
    """Of the pipeline's options; see `overridden`."""


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:  # pyright: ignore[reportPrivateUsage] - argparse names its type so
    """Adds the command to `capuchin`."""
    parser = subparsers.add_parser(
        "fix",
        help="fix an issue in a local repository",
        description="Works on the last commit. Started again with the same --out, it goes on "
        "where it stopped. Exit codes: 0 a fix was chosen, 3 no fix, 4 out of budget, 1 failed, "
        "2 wrong usage.",
    )
    add_input(parser)
    parser.add_argument(
        "--out", type=Path, default=Path("capuchin-run"), metavar="DIR",
        help="for the results (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--samples", type=int, metavar="N", help="how many edits are tried")
    add_choosing(parser)
    parser.add_argument("--json", action="store_true", help="print report.json on standard output")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(command(args))


async def command(args: argparse.Namespace, settings: Settings | None = None) -> int:
    """Run the command and return its exit code."""
    return await ended(_fix(args, settings), args)


async def _order(args: argparse.Namespace) -> Order:
    repo = await repository_of(args.repo)
    issue, digest = read_issue(args.issue, repo)
    overridden(Options(), given(args))
    return Order(
        repo=repo,
        issue=issue,
        digest=digest,
        out=args.out.resolve(),
        json=args.json,
        given=given(args),
    )


async def _fix(args: argparse.Namespace, settings: Settings | None) -> int:
    order, settings = await _order(args), settings or Settings.from_env()
    store = DirStore(order.out / "run")
    start = await started(order.repo, order.digest, order.out, store)
    remote = Remote(order.repo.as_uri())
    mirrors = Mirrors(order.out)
    checkout = await mirrors.checkout(remote, "local/repository", "HEAD", base=start.base_commit)
    codebase = await Codebase.open(checkout.git_dir, checkout.base)
    job = await _job(order, codebase, start)
    engine = engine_of(settings, owner=OWNER)
    try:
        outcome = await Workshop(settings, engine).solve(job, store, steps=Steps(), say=say)
    finally:
        await engine.close()
    return await asyncio.to_thread(_leave, order, start, outcome)


async def _job(order: Order, codebase: Codebase, start: Start) -> Job:
    config = await config_of(codebase)
    return Job(
        run_id=start.run_id,
        issue=order.issue,
        codebase=codebase,
        options=overridden(config.options(), order.given),
        setup=config.setup,
        dockerfile=config.dockerfile,
        python=config.python,
    )


def _leave(order: Order, start: Start, outcome: Outcome) -> int:
    """Write the results and say how it ended; the exit code."""
    report = report_of(outcome, start.base_commit)
    files = {
        "report.json": report.model_dump_json(indent=1).encode() + b"\n",
        "report.md": as_markdown(outcome).encode(),
    }
    result = outcome.result
    if isinstance(result, Selection):
        files["patch.diff"] = result.candidate.patch.diff.encode()
        files["reproduction_test.py"] = result.evidence.reproduction.text.encode()
    facts = {"base_commit": start.base_commit, "image": outcome.image, "outcome": report.outcome}
    leave(order.out, files, facts=facts, issue=order.issue)
    if order.json:
        sys.stdout.write(files["report.json"].decode())
    told = f"{report.title or report.reason}, ${report.dollars:.2f} at list prices"
    say(f"{report.outcome.capitalize()}: {told}. See {order.out}.")
    return EXIT_CODES[report.outcome]
