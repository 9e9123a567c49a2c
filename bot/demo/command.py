"""`capuchin demo [--keep] [--port N]`: from the signed webhook to the pull request."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import suppress
from importlib.resources import files as resources

from bot.cli import Commands, port
from bot.cli.terminal import printable
from bot.comments import status
from bot.demo import summary
from bot.demo.environment import MAINTAINER, REPORTER, Stage, standing
from bot.demo.package import LICENSE, REPORTED, DemoFailed, files, source_release
from bot.demo.watch import followed, outcome_of
from bot.runner.sandbox import engine_of
from bot.settings import Settings
from bot.types import Run, RunStatus
from pipeline.types import NoFix, Selection
from sandbox.base import SandboxError
from sandbox.scratch import scratch_folder

PATIENCE_SECONDS = 1800
"""A demo that takes longer than this is not going to end."""


def register(subparsers: Commands) -> None:
    """Adds the command to `capuchin`."""
    parser = subparsers.add_parser(
        "demo",
        help="fix a real bug of a real package on this machine",
        description="From the signed webhook to the pull request, on a GitHub of its own. Answers "
        "are recorded unless ANTHROPIC_API_KEY is set; it says which.",
    )
    parser.add_argument("--keep", action="store_true", help="stay up afterwards, for a browser")
    parser.add_argument("--port", type=port, default=0, help="where the demo's GitHub listens")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(_demo(args.keep, args.port))


async def _demo(keep: bool, number: int) -> int:
    began = time.monotonic()
    settings = Settings.from_env()
    try:
        await engine_of(settings).check()
        package = files(source_release(settings.data_dir / "cache"))
        with scratch_folder("demo") as folder:
            async with standing(folder, settings, package, number) as stage:
                _introduce(stage)
                run = await _labelled(stage)
                code = await _conclude(stage, run, began)
                if keep:
                    await _kept(stage)
                return code
    except (DemoFailed, SandboxError) as error:
        _say(str(error))
        return 1
    except OSError as error:
        _say(f"The demo could not start: {error.strerror or 'the port is taken'}.")
        return 1


def _introduce(stage: Stage) -> None:
    _say(f"The package: marshmallow 3.0.0, its source release from PyPI ({LICENSE}).")
    _say(f"The bug: once reported as {REPORTED}; the issue is in our words.")
    if stage.recorded:
        _say(f"The model: recorded. {stage.recorded.recording.note}\n"
             "Set ANTHROPIC_API_KEY to ask the real service instead.")  # fmt: skip
    else:
        _say(f"The model: {stage.settings.solver_model}, asked for real; this costs money.")


async def _labelled(stage: Stage) -> Run:
    text = (resources("bot.demo") / "issue.md").read_text(encoding="utf-8")
    title, _, body = text.partition("\n")
    issue = await stage.hub.open_issue(stage.repo, title, body, author=REPORTER)
    _say(f"The issue: {stage.hub.url}/{issue.html_path}")
    _say(f"@{MAINTAINER} puts the label {stage.settings.label!r} on it …")
    await stage.hub.add_label(issue, stage.settings.label, by=MAINTAINER)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await followed(stage, issue, _say)
    except TimeoutError:
        raise DemoFailed("The run did not end in half an hour; something is stuck.") from None


async def _conclude(stage: Stage, run: Run, began: float) -> int:
    outcome, accounts = await outcome_of(stage, run)

    def out(text: str) -> None:
        sys.stdout.write(printable(text))

    match outcome and outcome.result:
        case Selection() as chosen:
            out("\nCandidates × tests (exit 0: the test passes; 2: the issue is still there)\n\n")
            out(summary.votes(chosen.evidence.votes, chosen.candidate) + "\n\n")
            out(summary.decided(chosen) + "\n")
        case NoFix() as honest:
            out(f"\nNo fix: {status.no_fix_reason(honest.reason)}\n")
        case None:
            out(f"\nThe run ended: {status.failure_reason(run.failure, run.detail)}\n"
                if run.failure else f"\nThe run ended: {run.status.value}.\n")  # fmt: skip
    out(f"\n{summary.spending(accounts)}\n\n")
    recorded = " of recorded answers; nothing was paid" if stage.recorded else ""
    out(f"Price at list prices: ${run.dollars:.4f}{recorded}.\n")
    out(f"Wall time: {time.monotonic() - began:.1f} s.\n")
    if run.status is RunStatus.OPENED_PULL_REQUEST:
        out(f"\nPull request: {run.pull_request_url}\n")
        return 0
    return 1


async def _kept(stage: Stage) -> None:
    _say(f"\nLook at {stage.hub.url}/{stage.repo.full_name} in a browser; Ctrl-C ends the demo.")
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


def _say(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")
