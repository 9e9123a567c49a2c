"""The job of `capuchin fix` and `capuchin select`: how it is built, run, shown and concluded."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from bot.cli.display.base import CURRENT, print_progress
from bot.cli.local_repository import name_repository
from bot.cli.local_run import (
    EXIT_CODES,
    Start,
    load_config,
    save_failed_environment,
    with_overrides,
)
from bot.cli.report_files.document import Report
from bot.comments.evidence.opening import describe_minutes
from bot.comments.pull_request import price_notes
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import build_engine
from bot.runner.types import Job
from bot.settings import Settings
from bot.storage.progress import Progress, ProgressStore
from pipeline.codebase.commit import Codebase
from pipeline.store import Store
from pipeline.types import Account, Issue, replace
from sandbox.errors import EnvironmentFailed


async def build_job(
    start: Start,
    issue: Issue,
    codebase: Codebase,
    overrides: Mapping[str, object],
    describe: Callable[[], Awaitable[str]],
    *,
    as_of: date | None = None,
) -> Job:
    """The job at the commit, with the settings of its file under the command line's `overrides`.

    Raises:
        WrongUsage: the settings file is not valid, or an option is out of range.
    """
    config = await load_config(codebase)
    if not issue.repository:
        name = await name_repository(Path(start.repository), codebase)
        issue = replace(issue, repository=name)
    return Job(
        run_id=start.run_id,
        issue=issue,
        codebase=codebase,
        options=with_overrides(config.options(), overrides),
        setup=config.setup,
        dockerfile=config.dockerfile,
        python=config.python,
        as_of=as_of,
        describe=describe,
    )


@dataclass(frozen=True)
class ShownRun:
    """A runner, and a store that shows on the command's display how far a run has come."""

    runner: PipelineRunner
    store: ProgressStore


@asynccontextmanager
async def open_run(
    settings: Settings,
    owner: str,
    job: Job,
    store: Store,
    out: Path,
    *,
    expected: tuple[float, float] | None = None,
) -> AsyncGenerator[ShownRun]:
    """Open the engine of `owner`; a repository that cannot be installed leaves its health in `out`.

    `expected`: how many seconds such runs take.
    """
    display = CURRENT.get()

    def show(progress: Progress) -> None:
        display.show(progress, job.options.dollars)

    engine = build_engine(settings, owner=owner)
    try:
        shown = ProgressStore(store, show, Progress(expected=expected))
        yield ShownRun(PipelineRunner(settings, engine), shown)
    except EnvironmentFailed:
        await save_failed_environment(out, store)
        raise
    finally:
        await engine.close()


def conclude(
    report: Report,
    accounts: Sequence[Account],
    *,
    out: Path | None,
    result: str = "",
    done: str = "Proven fix",
) -> int:
    """Print what came of the run, and return the exit code.

    `result` is for standard output; `done` names a success.
    """
    code = EXIT_CODES[report.outcome]
    facts = {"outcome": report.outcome, "dollars": report.dollars}
    display = CURRENT.get()
    display.end(code, {**facts, "out": str(out) if out else None})
    sys.stdout.write(result)
    sys.stdout.flush()
    for note in price_notes(accounts):
        print_progress(note)
    took = describe_minutes(display.seconds)
    summary = f"{report.title or report.reason}, {took}, ${report.dollars:.2f} at list prices"
    verdict = done if report.outcome == "fix" else report.outcome.capitalize()
    print_progress(f"{verdict}: {summary}.{f' See {out}.' if out else ''}")
    return code
