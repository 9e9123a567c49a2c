"""`capuchin fix URL`, or `fix --repo DIR --issue FILE`: one run that writes its results to files.

With a URL it reads the issue and its repository from GitHub; it never writes to GitHub.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.cli import Subparsers
from bot.cli.local_run import (
    EXIT_CODES,
    Start,
    WrongUsage,
    find_repository,
    load_config,
    load_or_create_start,
    print_progress,
    read_issue,
    with_overrides,
    write_results,
)
from bot.cli.options import (
    add_input_options,
    add_selection_options,
    options_from_args,
    run_and_report,
)
from bot.cli.remote_issue import load_or_fetch_issue
from bot.cli.report import build_report, render_report
from bot.comments.code_destinations import external_hosts
from bot.comments.pull_request import price_notes
from bot.git.mirrors import Checkout, Mirrors
from bot.git.remote import Remote
from bot.runner.models import check_models
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import FIX_OWNER, build_engine
from bot.runner.types import Job, SolveOutcome
from bot.settings import Settings
from bot.storage.draining import InFlightWork
from pipeline.codebase.commit import Codebase
from pipeline.options import Options
from pipeline.store import DirStore, Store
from pipeline.types import Issue, Selection


@dataclass(frozen=True)
class FixInput:
    """The issue, the commit to start from, and the command line's options."""

    issue: Issue
    start: Start
    checkout: Checkout
    out: Path
    json: bool
    overrides: Mapping[str, object]
    """Overrides of the pipeline's options; see `with_overrides`."""


def register(subparsers: Subparsers) -> None:
    """Add the command to `capuchin`."""
    parser = subparsers.add_parser(
        "fix",
        description="Works on the last commit of the default branch of the issue's repository, or "
        "of a local repository. Does not write to GitHub. Run it again with the same --out to "
        "continue where it stopped. Exit codes: 0 a fix was chosen, 3 no fix, 4 out of budget, "
        "1 failed, 2 wrong usage.",
    )
    parser.add_argument(
        "url", nargs="?", metavar="URL", help="an issue on GitHub, instead of --repo and --issue"
    )
    add_input_options(parser, required=False)
    parser.add_argument(
        "--out", type=Path, default=Path("capuchin-run"), metavar="DIR",
        help="where to write the results (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--samples", type=int, metavar="N", help="how many edits to try")
    add_selection_options(parser)
    parser.add_argument(
        "--all-revisions", action="store_true",
        help="also run every test on earlier revisions; `capuchin evaluate --runs` compares them",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print report.json on standard output")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(run_command(args))


async def run_command(args: argparse.Namespace, settings: Settings | None = None) -> int:
    """Run the command and return its exit code."""
    return await run_and_report(_fix(args, settings), args)


async def _read_input(
    args: argparse.Namespace, settings: Settings, out: Path, store: Store
) -> FixInput:
    with_overrides(Options(), options_from_args(args))
    if bool(args.url) == bool(args.repo or args.issue) or bool(args.repo) != bool(args.issue):
        raise WrongUsage("Give either the URL of an issue, or --repo DIR and --issue FILE.")
    if args.url:
        issue, start, checkout = await load_or_fetch_issue(args.url, settings, out, store)
    else:
        repo = await find_repository(args.repo)
        issue, digest = read_issue(args.issue, repo)
        start = await load_or_create_start(repo, digest, out, store)
        checkout = await Mirrors(out).checkout(
            Remote(repo.as_uri()), "local/repository", "HEAD", base=start.base_commit
        )
    return FixInput(issue, start, checkout, out, json=args.json, overrides=options_from_args(args))


async def _fix(args: argparse.Namespace, settings: Settings | None) -> int:
    settings = settings or Settings.from_env()
    check_models(settings)
    out = await asyncio.to_thread(args.out.resolve)
    store = DirStore(out / "run")
    task = await _read_input(args, settings, out, store)
    job = await _build_job(task)
    engine = build_engine(settings, owner=FIX_OWNER)
    try:
        outcome = await PipelineRunner(settings, engine).solve(
            job, store, in_flight=InFlightWork(), on_progress=print_progress
        )
    finally:
        await engine.close()
    return await asyncio.to_thread(_write_results, task, outcome, settings)


async def _build_job(task: FixInput) -> Job:
    codebase = await Codebase.open(task.checkout.git_dir, task.checkout.base)
    config = await load_config(codebase)
    return Job(
        run_id=task.start.run_id,
        issue=task.issue,
        codebase=codebase,
        options=with_overrides(config.options(), task.overrides),
        setup=config.setup,
        dockerfile=config.dockerfile,
        python=config.python,
    )


def _write_results(task: FixInput, outcome: SolveOutcome, settings: Settings) -> int:
    """Write the results, print the outcome, and return the exit code."""
    base = task.start.base_commit
    hosts = external_hosts(outcome.sent_to, settings, by_app=False)
    report = build_report(outcome, base, hosts)
    files = {
        "report.json": report.model_dump_json(indent=1).encode() + b"\n",
        "report.md": render_report(outcome, hosts).encode(),
    }
    result = outcome.result
    if isinstance(result, Selection):
        files["patch.diff"] = result.candidate.patch.diff.encode()
        files["reproduction_test.py"] = result.evidence.reproduction.text.encode()
    facts = {"base_commit": base, "image": outcome.image, "outcome": report.outcome}
    write_results(task.out, files, facts=facts, issue=task.issue)
    if task.json:
        sys.stdout.write(files["report.json"].decode())
    for note in price_notes(outcome.accounts):
        print_progress(note)
    summary = f"{report.title or report.reason}, ${report.dollars:.2f} at list prices"
    print_progress(f"{report.outcome.capitalize()}: {summary}. See {task.out}.")
    return EXIT_CODES[report.outcome]
