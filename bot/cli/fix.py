"""`capuchin fix URL`, or `fix --repo DIR --issue FILE`: one run that writes its results to files.

With a URL it reads the issue and its repository from GitHub; it never writes to GitHub.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import get_args

from bot.cli import Subparsers
from bot.cli.display import CURRENT, load_expected, print_progress, save_known
from bot.cli.local_run import (
    add_input_options,
    add_selection_options,
    build_job,
    build_run_files,
    conclude,
    open_run,
    options_from_args,
    run_and_report,
    run_interruptible,
    with_overrides,
    write_results,
)
from bot.cli.out_folder import open_store
from bot.cli.run_input import (
    Start,
    WrongUsage,
    describe_commit,
    fetch_local,
    find_repository,
    load_or_create_start,
    load_or_fetch_issue,
    read_issue,
)
from bot.comments.run_details import external_hosts
from bot.git.mirrors import Checkout, Mirrors
from bot.runner.models import check_models
from bot.runner.sandbox import FIX_OWNER
from bot.settings import Settings
from bot.storage.workers import InFlightWork
from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options, Strategy
from pipeline.data.types import Issue
from pipeline.store import Store
from pipeline.workflows.outcome import EFFECTIVE_KEY, OUTCOME_KEY, EffectiveSetup, SolveResult
from pipeline.workflows.plan import price_range


@dataclass(frozen=True)
class FixInput:
    issue: Issue
    start: Start
    checkout: Checkout
    describe: Callable[[], Awaitable[str]]
    """Returns the output of `git describe` for the commit."""


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "fix",
        description="Works on the last commit of the default branch of the issue's repository, or "
        "of a local repository. Does not write to GitHub. Run it again with the same --out to "
        "continue where it stopped. Exit codes: 0 a proven fix, 3 an unproven one or none, "
        "4 out of budget or time, 1 failed, 2 wrong usage.",
    )
    parser.add_argument(
        "url", nargs="?", metavar="URL", help="an issue on GitHub, instead of --repo and --issue"
    )
    add_input_options(parser, required=False)
    parser.add_argument(
        "--out", type=Path, default=Path("capuchin-run"), metavar="DIR",
        help="where to write the results (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--strategy", choices=get_args(Strategy),
        help="samples: start edits from the ranked files; search: find the lines to change first; "
        "codemonkeys, swe_reasoner: a paper's method as published, as a control",
    )  # fmt: skip
    parser.add_argument("--samples", type=int, metavar="N", help="how many edits to try")
    add_selection_options(parser)
    parser.add_argument(
        "--all-revisions", action="store_true",
        help="also run every test on earlier revisions, for `capuchin evaluate --runs` to compare",
    )  # fmt: skip
    parser.add_argument(
        "--as-of", type=_parse_date, metavar="DATE",
        help="install packages as of this day, YYYY-MM-DD (default: the commit's day)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print report.json on standard output")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return run_interruptible(run_command(args))


def _parse_date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2021-06-30") from None


async def run_command(args: argparse.Namespace, settings: Settings | None = None) -> int:
    return await run_and_report(_fix(args, settings), args, stages=True)


async def _read_input(
    args: argparse.Namespace, settings: Settings, out: Path, store: Store
) -> FixInput:
    with_overrides(Options(), options_from_args(args))
    if bool(args.url) == bool(args.repo or args.issue) or bool(args.repo) != bool(args.issue):
        raise WrongUsage("Give either the URL of an issue, or --repo DIR and --issue FILE.")
    if args.url:
        issue, start, checkout, remote = await load_or_fetch_issue(args.url, settings, out, store)
        describe = partial(
            Mirrors(settings.data_dir).describe, remote, issue.repository, checkout.base
        )
        return FixInput(issue, start, checkout, describe)
    repo = await find_repository(args.repo)
    issue, digest = read_issue(args.issue)
    start = await load_or_create_start(repo, digest, out, store)
    checkout = await fetch_local(repo, start.base_commit, settings)
    return FixInput(issue, start, checkout, partial(describe_commit, repo, checkout.base))


async def _tell_ignored(args: argparse.Namespace, store: Store) -> None:
    """Say which options of the command line come too late for a run that has ended."""
    done = await store.load(EFFECTIVE_KEY, EffectiveSetup)
    if done is None or not await store.load(OUTCOME_KEY, SolveResult):
        return
    given = {name: value for name, value in options_from_args(args).items() if value is not None}
    other = [name for name, value in given.items() if getattr(done.options, name) != value]
    if other:
        print_progress(
            f"{args.out} holds a finished run with other options ({', '.join(other)}); this shows "
            "its result. Choose another --out to run it with these."
        )


async def _fix(args: argparse.Namespace, settings: Settings | None) -> int:
    settings = settings or Settings.from_env()
    check_models(settings)
    out = await asyncio.to_thread(args.out.resolve)
    store = await asyncio.to_thread(open_store, out, settings.data_dir)
    is_new = not await asyncio.to_thread(store.root.exists)
    task = await _read_input(args, settings, out, store)
    codebase = await Codebase.open(task.checkout.git_dir, task.checkout.base)
    job = await build_job(
        task.start,
        store.scope_of(task.start),
        task.issue,
        codebase,
        options_from_args(args),
        task.describe,
        as_of=args.as_of,
    )
    await _tell_ignored(args, store)
    repository, began = task.start.repository, time.monotonic()
    expected = load_expected(settings.data_dir, repository, "durations")
    if costs := load_expected(settings.data_dir, repository, "dollars"):
        usual, most = price_range(*costs), f"${job.options.dollars:.2f}"
        print_progress(
            f"Half of the latest fixes here cost {usual}; this one costs at most {most}."
        )
    async with open_run(settings, FIX_OWNER, job, store, out, expected=expected) as (
        runner,
        report_progress,
    ):
        outcome = await runner.solve(
            job, store, in_flight=InFlightWork(), on_progress=report_progress
        )
    seconds = await CURRENT.get().stopwatch.read(store, outcome.environment)
    if is_new and outcome.image:
        took, place = time.monotonic() - began, settings.data_dir
        save_known(place, repository, "durations", took)
        save_known(place, repository, "dollars", outcome.dollars)

    def write() -> int:
        base = task.start.base_commit
        hosts = external_hosts(outcome.sent_to, settings, by_app=False)
        report, files = build_run_files(outcome, base, hosts, seconds)
        facts = {"base_commit": base, "image": outcome.image, "outcome": report.outcome}
        write_results(out, files, facts=facts, issue=task.issue)
        result = files["report.json"].decode() if args.json else ""
        return conclude(report, outcome.accounts, out=out, result=result)

    return await asyncio.to_thread(write)
