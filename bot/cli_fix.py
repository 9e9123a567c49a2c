"""`capuchin fix --repo DIR --issue FILE`: one run on a local repository, without GitHub."""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, get_args

from bot.checkout import Mirrors
from bot.engine import FIX, engine_of
from bot.github.errors import GitHubUnavailable
from bot.local_run import (
    EXIT_CODES,
    FAILED,
    USAGE,
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
from bot.remote import Remote, RepositoryEmpty, RepositoryGone
from bot.report import as_markdown, report_of
from bot.settings import Settings, SettingsError
from bot.steps import Steps
from bot.workshop import Job, Outcome, Workshop
from pipeline.codebase import Codebase
from pipeline.git import GitFailed
from pipeline.models.base import ModelError
from pipeline.options import SelectionMethod
from pipeline.store import DirStore
from pipeline.types import Issue, Selection
from sandbox.base import EnvironmentFailed, SandboxError

Parser = TypeVar("Parser", bound=argparse.ArgumentParser)


@dataclass(frozen=True)
class Order:
    """The command line, read and checked."""

    repo: Path
    issue: Issue
    digest: str
    out: Path
    json: bool
    samples: int | None
    budget: float | None
    selection: str | None
    confidence: float | None


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:  # pyright: ignore[reportPrivateUsage] - argparse names its type so
    """Adds the command to `capuchin`."""
    parser = subparsers.add_parser(
        "fix",
        help="fix an issue in a local repository",
        description="Works on the last commit. Started again with the same --out, it goes on "
        "where it stopped. Exit codes: 0 a fix was chosen, 3 no fix, 4 out of budget, 1 failed, "
        "2 wrong usage.",
    )
    parser.add_argument("--repo", required=True, type=Path, metavar="DIR", help="a git repository")
    parser.add_argument(
        "--issue", required=True, type=Path, metavar="FILE",
        help="text: the first line is the title",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("capuchin-run"), metavar="DIR",
        help="for the results (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--samples", type=int, metavar="N", help="how many edits are tried")
    parser.add_argument("--budget", type=float, metavar="DOLLARS", help="ceiling at list prices")
    parser.add_argument(
        "--selection", choices=get_args(SelectionMethod), help="how one edit is chosen of several"
    )
    parser.add_argument(
        "--confidence", type=float, metavar="P", help="least probability of being right, 0 to 1"
    )
    parser.add_argument("--json", action="store_true", help="print report.json on standard output")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(command(args))


async def command(args: argparse.Namespace, settings: Settings | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        return await _fix(_order(args), settings or Settings.from_env())
    except (WrongUsage, SettingsError) as error:
        say(str(error))
        return USAGE
    except (RepositoryGone, RepositoryEmpty) as error:
        say(f"{args.repo} no longer has the commit that the run began from: {error}.")
        return FAILED
    except (ModelError, SandboxError, GitFailed, GitHubUnavailable) as error:
        say(f"{type(error).__name__}: {error}")
        if isinstance(error, EnvironmentFailed):
            say(f"The command was: {error.command}\n{error.log.rstrip()}")
        say("What was done is kept: start again with the same --out to go on.")
        return FAILED


def _order(args: argparse.Namespace) -> Order:
    issue, digest = read_issue(args.issue, repository_of(args.repo))
    return Order(
        repo=repository_of(args.repo),
        issue=issue,
        digest=digest,
        out=args.out.resolve(),
        json=args.json,
        samples=args.samples,
        budget=args.budget,
        selection=args.selection,
        confidence=args.confidence,
    )


async def _fix(order: Order, settings: Settings) -> int:
    store = DirStore(order.out / "run")
    start = await started(order.repo, order.digest, order.out, store)
    remote = Remote(order.repo.as_uri())
    mirrors = Mirrors(order.out)
    checkout = await mirrors.checkout(remote, "local/repository", "HEAD", base=start.base_commit)
    codebase = await Codebase.open(checkout.git_dir, checkout.base)
    job = await _job(order, codebase, start)
    engine = engine_of(settings, owner=FIX)
    try:
        outcome = await Workshop(settings, engine).solve(job, store, steps=Steps(), say=say)
    finally:
        await engine.close()
    return await asyncio.to_thread(_leave, order, start, outcome)


async def _job(order: Order, codebase: Codebase, start: Start) -> Job:
    config = await config_of(codebase)
    given = {
        "samples": order.samples,
        "dollars": order.budget,
        "selection": order.selection,
        "confidence": order.confidence,
    }
    return Job(
        run_id=start.run_id,
        issue=order.issue,
        codebase=codebase,
        options=overridden(config.options(), given),
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
