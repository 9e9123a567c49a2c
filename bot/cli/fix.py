"""`capuchin fix URL`, or `fix --repo DIR --issue FILE`: one run that writes its results to files.

With a URL it reads the issue and its repository from GitHub; it never writes to GitHub.
"""

import argparse
import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import get_args

from bot.cli import Subparsers
from bot.cli.display import print_progress
from bot.cli.doctor_services import ask_first
from bot.cli.local_run import (
    LocalInput,
    LocalRequest,
    add_run_options,
    build_job,
    finish,
    open_run,
    read_input,
    run_and_report,
    run_interruptible,
    with_overrides,
)
from bot.cli.out_folder import open_store
from bot.cli.run_input import WrongUsage, load_or_fetch_issue
from bot.comments.run_details import external_hosts
from bot.data.progress import range_of_durations
from bot.git.mirrors import Mirrors
from bot.runner.models import check_models
from bot.runner.sandbox import FIX_OWNER
from bot.settings import Settings
from pipeline.concurrency import gather_all
from pipeline.data.options import Options, Strategy
from pipeline.run_errors import OtherFormat
from pipeline.store import DirStore, Store, digest
from pipeline.workflows.outcome import EFFECTIVE_KEY, OUTCOME_KEY, EffectiveSetup, SolveResult
from pipeline.workflows.plan import price_range
from sandbox.frozen import Frozen


@dataclass(frozen=True, kw_only=True)
class FixRequest(LocalRequest):
    as_of: date | None


class LatestRuns(Frozen):
    """What the latest runs of `capuchin fix` on a repository took."""

    seconds: tuple[float, ...] = ()
    dollars: tuple[float, ...] = ()


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "fix",
        description="Works on the last commit of the default branch of the issue's repository, or "
        "of a local repository. Does not write to GitHub. Run it again with the same --out to "
        "continue where it stopped. Exit codes: 0 a fix that a test shows, 3 another or none, "
        "4 out of budget or time, 1 failed, 2 wrong usage.",
    )
    parser.add_argument(
        "url", nargs="?", metavar="URL", help="an issue on GitHub, instead of --repo and --issue"
    )
    add_run_options(parser, required=False)
    parser.add_argument(
        "--out", type=Path, default=Path("capuchin-run"), metavar="DIR",
        help="where to write the results (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--strategy", choices=get_args(Strategy),
        help="samples: start edits from the ranked files; search: find the lines to change first; "
        "codemonkeys, swe_reasoner: a paper's method as published, as a control",
    )  # fmt: skip
    parser.add_argument(
        "--root", default="", metavar="DIR",
        help="the project's folder in the repository, above what its settings file says",
    )  # fmt: skip
    parser.add_argument("--samples", type=int, metavar="N", help="how many edits to try")
    parser.add_argument(
        "--as-of", type=_parse_date, metavar="DATE",
        help="install packages as of this day, YYYY-MM-DD (default: two weeks after the commit)",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return run_interruptible(run_command(args))


def _parse_date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2021-06-30") from None


async def run_command(args: argparse.Namespace, settings: Settings | None = None) -> int:
    request = FixRequest.read(args)
    return await run_and_report(partial(_fix, request, settings), request, stages=True)


async def _read_input(
    request: FixRequest, settings: Settings, out: Path, store: Store
) -> LocalInput:
    url, repo, issue = request.url, request.repo, request.issue
    if bool(url) == bool(repo or issue) or bool(repo) != bool(issue):
        raise WrongUsage("Give either the URL of an issue, or --repo DIR and --issue FILE.")
    if not url:
        return await read_input(request, settings, out, store)
    found, start, checkout, remote = await load_or_fetch_issue(url, settings, out, store)
    describe = partial(Mirrors(settings.data_dir).describe, remote, found.repository, checkout.base)
    return LocalInput(found, start, checkout, describe)


async def _tell_ignored(request: FixRequest, store: Store) -> None:
    """Say which options of the command line come too late for a run that has ended."""
    done = await store.load(EFFECTIVE_KEY, EffectiveSetup)
    if done is None or not await store.load(OUTCOME_KEY, SolveResult):
        return
    asked = with_overrides(Options(), request.options)
    other = [n for n in request.options if getattr(done.options, n) != getattr(asked, n)]
    if other:
        print_progress(
            f"{request.out} holds a finished run with other options ({', '.join(other)}); this "
            "shows its result. Choose another --out to run it with these."
        )


async def _fix(request: FixRequest, settings: Settings | None, out: Path) -> int:
    settings = settings or Settings.from_env()
    check_models(settings)
    store = await asyncio.to_thread(open_store, out, settings.data_dir)
    is_new = not await asyncio.to_thread(store.root.exists)
    task = await _read_input(request, settings, out, store)
    if await store.load(EFFECTIVE_KEY, EffectiveSetup) is None:
        await gather_all(
            ask_first(settings, role)
            for role in ("solver_model", "scout_model")
            if getattr(settings, role)
        )
    job = await build_job(task, request, store.scope_of(task.start), as_of=request.as_of)
    await _tell_ignored(request, store)
    known, place, began = LatestRuns(), digest(task.start.repository), time.monotonic()
    latest = DirStore(settings.data_dir / "fixes")
    with suppress(OtherFormat):
        known = await latest.load(place, LatestRuns) or known
    if costs := range_of_durations(known.dollars):
        usual, most = price_range(*costs), f"${job.options.dollars:.2f}"
        print_progress(f"Half of the latest runs here cost {usual}; this one costs at most {most}.")
    expected = range_of_durations(known.seconds)
    async with open_run(settings, FIX_OWNER, job, store, out, expected=expected) as (
        runner,
        report_progress,
    ):
        outcome = await runner.solve(job, store, on_progress=report_progress)
    if is_new and outcome.image:
        seconds = (*known.seconds, time.monotonic() - began)[-20:]
        dollars = (*known.dollars, outcome.dollars)[-20:]
        await latest.save(place, LatestRuns(seconds=seconds, dollars=dollars))
    hosts = external_hosts(outcome.sent_to, settings, by_app=False)
    return await finish(request, task, outcome, out, store, hosts=hosts, done="Proven fix")
