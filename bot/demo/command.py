"""`capuchin demo [--keep] [--port N]`: from the signed webhook to the pull request."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from contextlib import suppress
from importlib.resources import files as resources

from bot.cli import Subparsers, parse_port
from bot.cli.terminal import printable
from bot.comments import status
from bot.demo import summary
from bot.demo.environment import MAINTAINER, REPORTER, DemoEnvironment, run_environment
from bot.demo.package import ISSUE_URL, LICENSE, DemoFailed, fetch_release, unpack
from bot.demo.watch import load_outcome, watch_run
from bot.runner.sandbox import build_engine
from bot.settings import Settings
from bot.types import Run, RunStatus
from pipeline.types import NoFix, Selection
from sandbox.errors import SandboxError
from sandbox.scratch import scratch_folder

TIMEOUT_SECONDS = 1800
"""A demo that takes longer is stuck."""


def register(subparsers: Subparsers) -> None:
    """Add the command to `capuchin`."""
    parser = subparsers.add_parser(
        "demo",
        description="Shows everything from the signed webhook to the pull request on a local "
        "GitHub. Uses recorded answers unless ANTHROPIC_API_KEY is set, and says which.",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep running afterwards, for a browser"
    )
    parser.add_argument("--port", type=parse_port, default=0, help="port of the local GitHub")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(_run_demo(args.keep, args.port))


async def _run_demo(keep: bool, number: int) -> int:
    began = time.monotonic()
    settings = Settings.from_env()
    try:
        await build_engine(settings).check()
        package = unpack(fetch_release(settings.data_dir / "cache"))
        with scratch_folder("demo") as folder:
            async with run_environment(folder, settings, package, number) as env:
                _introduce(env)
                run = await _label_issue(env)
                code = await _conclude(env, run, began)
                if keep:
                    await _stay_up(env)
                return code
    except (DemoFailed, SandboxError) as error:
        _print(str(error))
        return 1
    except OSError as error:
        _print(f"The demo could not start: {error.strerror or 'the port is taken'}.")
        return 1


def _introduce(env: DemoEnvironment) -> None:
    _print(f"Package: marshmallow 3.0.0, the source release from PyPI ({LICENSE}).")
    _print(f"Bug: originally reported as {ISSUE_URL}; we reworded the issue.")
    if env.recorded:
        _print(f"Model: recorded answers. {env.recorded.recording.note}\n"
             "Set ANTHROPIC_API_KEY to call the real service instead.")  # fmt: skip
    else:
        _print(f"Model: {env.settings.solver_model}, called live; this costs money.")


async def _label_issue(env: DemoEnvironment) -> Run:
    text = (resources("bot.demo") / "issue.md").read_text(encoding="utf-8")
    title, _, body = text.partition("\n")
    issue = await env.hub.open_issue(env.repo, title, body, author=REPORTER)
    _print(f"Issue: {env.hub.url}/{issue.html_path}")
    _print(f"@{MAINTAINER} adds the label {env.settings.label!r} …")
    await env.hub.add_label(issue, env.settings.label, by=MAINTAINER)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await watch_run(env, issue, _print)
    except TimeoutError:
        raise DemoFailed(
            "The run did not finish within half an hour; something is stuck."
        ) from None


async def _conclude(env: DemoEnvironment, run: Run, began: float) -> int:
    outcome, accounts = await load_outcome(env, run)

    def out(text: str) -> None:
        sys.stdout.write(printable(text))

    match outcome and outcome.result:
        case Selection() as chosen:
            out("\nCandidates × tests (exit 0: the test passes; 2: the issue is still present)\n\n")
            out(summary.render_votes(chosen.evidence.votes, chosen.candidate) + "\n\n")
            out(summary.render_decision(chosen) + "\n")
        case NoFix() as honest:
            out(f"\nNo fix: {status.no_fix_reason(honest.reason)}\n")
        case None:
            out(f"\nThe run ended: {status.failure_reason(run.failure, run.detail)}\n"
                if run.failure else f"\nThe run ended: {run.status.value}.\n")  # fmt: skip
    out(f"\n{summary.render_spending(accounts)}\n\n")
    recorded = " for recorded answers; nothing was paid" if env.recorded else ""
    out(f"Cost at list prices: ${run.dollars:.4f}{recorded}.\n")
    out(f"Wall time: {time.monotonic() - began:.1f} s.\n")
    if run.status is RunStatus.OPENED_PULL_REQUEST:
        out(f"\nPull request: {run.pull_request_url}\n")
        return 0
    return 1


async def _stay_up(env: DemoEnvironment) -> None:
    _print(f"\nOpen {env.hub.url}/{env.repo.full_name} in a browser; press Ctrl-C to end the demo.")
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


def _print(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")
