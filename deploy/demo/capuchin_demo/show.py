"""Shows everything from the signed webhook to the pull request, on a local GitHub."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from importlib.resources import files as resources

from bot.cli import FAILED
from bot.cli.display.base import Display, print_progress
from bot.cli.display.open import open_display
from bot.cli.terminal import printable
from bot.comments import no_fix, status
from bot.demo import summary
from bot.demo.environment import (
    MAINTAINER,
    REPORTER,
    RUN_BUDGET,
    DemoEnvironment,
    run_environment,
)
from bot.demo.package import ISSUE_URL, LICENSE, DemoFailed
from bot.demo.watch import load_outcome, watch_run
from bot.links import run_page_url
from bot.settings import Settings
from bot.types import Run, RunStatus
from pipeline.types import NoFix, Selection
from sandbox.scratch import scratch_folder

TIMEOUT_SECONDS = 1800
"""A demo that takes longer is stuck."""


async def show_demo(
    settings: Settings, package: Mapping[str, bytes], number: int, *, keep: bool, began: float
) -> int:
    """Fix the bug of `package` with the local GitHub on port `number` (0: any free one); return
    the exit code. With `keep`, stay until cancelled. `began` is when the demo did, by the monotonic
    clock.

    Raises:
        DemoFailed: it cannot continue.
        SandboxError, OSError: from what it starts.
    """
    with scratch_folder("demo") as folder:
        async with run_environment(folder, settings, package, number) as env:
            _introduce(env)
            with open_display() as display:
                run = await _label_issue(env, display)
                display.end(0 if run.status is RunStatus.OPENED_PULL_REQUEST else FAILED, {})
            code = await _conclude(env, run, began)
            _list_pages(env, run, keep=keep)
            if keep:
                await _stay_up()
            return code


def _introduce(env: DemoEnvironment) -> None:
    print_progress(f"Package: marshmallow 3.0.0, the source release from PyPI ({LICENSE}).")
    print_progress(f"Bug: originally reported as {ISSUE_URL}; we reworded the issue.")
    if env.recorded:
        print_progress(f"Model: recorded answers. {env.recorded.recording.note}\n"
             "Set ANTHROPIC_API_KEY to call the real service instead.")  # fmt: skip
    else:
        print_progress(f"Model: {env.settings.solver_model}, called live; this costs money.")


async def _label_issue(env: DemoEnvironment, display: Display) -> Run:
    text = (resources("bot.demo") / "issue.md").read_text(encoding="utf-8")
    title, _, body = text.partition("\n")
    issue = await env.hub.open_issue(env.repo, title, body, author=REPORTER)
    print_progress(f"Issue: {env.hub.url}/{issue.html_path}")
    print_progress(f"@{MAINTAINER} adds the label {env.settings.label!r} …")
    await env.hub.add_label(issue, env.settings.label, by=MAINTAINER)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await watch_run(env, issue, lambda progress: display.show(progress, RUN_BUDGET))
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
            out("\nEdits × scripts (exit 0: the script passes; 2: the issue is still present)\n\n")
            out(summary.render_votes(chosen) + "\n\n")
            out(summary.render_decision(chosen) + "\n")
        case NoFix() as honest:
            out(f"\nNo fix: {no_fix.no_fix_reason(honest.reason)}\n")
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
    return FAILED


def _list_pages(env: DemoEnvironment, run: Run, *, keep: bool) -> None:
    """Name what the demo made; its pages live as long as the demo."""
    sys.stdout.flush()
    if not keep:
        print_progress(
            "\nThe pages end with the demo: start it with --keep to read them in a browser, and to "
            "comment, unlabel and review there."
        )
        return
    repository = f"{env.hub.url}/{env.repo.full_name}"
    print_progress(f"\nRepository:   {repository}")
    print_progress(f"Issue:        {repository}/issues/{run.issue}")
    if run.pull_request_url:
        print_progress(f"Pull request: {run.pull_request_url}, with its evidence, commits and diff")
    print_progress(f"Run:          {run_page_url(env.settings, run.id)}")
    print_progress(
        f"\nOn these pages you are @{MAINTAINER}: comment (/capuchin explain, /capuchin use B), "
        "take the label off, review the pull request."
    )
    if env.recorded:
        print_progress(
            "The recording answers the review that the form offers; any other needs a live model."
        )
    print_progress("Press Ctrl-C to end the demo.")


async def _stay_up() -> None:
    """Wait until this task is cancelled, which ends the demo and is no failure."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if task := asyncio.current_task():
            task.uncancel()  # or what closes the demo would be cancelled, too
