"""A run from the command line: its options, its job, its errors, and the files that it leaves."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import shlex
import signal
import sys
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from datetime import date
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from bot.cli import FAILED, FIXED, NO_FIX, OUT_OF_BUDGET, USAGE
from bot.cli.display import CURRENT, Display, EventLines, print_progress
from bot.cli.report import FOLDER, Report, build_report, candidate_files, render_report
from bot.cli.run_input import Start, WrongUsage, name_repository
from bot.cli.stopwatch import BusySeconds
from bot.comments.evidence import describe_minutes
from bot.comments.pull_request import price_notes
from bot.comments.run_details import build_environment_report
from bot.data.job import Job, SolveOutcome
from bot.data.progress import Progress, ProgressTracker
from bot.errors import GitHubError, RepositoryEmpty, RepositoryGone
from bot.repo_config.model import CONFIG_PATHS, RepoConfig, parse_or_list_problems
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import build_engine
from bot.settings import Settings, SettingsError
from pipeline.bundle import write_bundle
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import CodebaseTooLarge, GitFailed
from pipeline.data.options import Options, SelectionMethod
from pipeline.data.presets import apply_preset
from pipeline.data.progress import OnProgress
from pipeline.data.types import Account, CommitSha, Issue, Selection
from pipeline.environment.prepare import FAILED_KEY
from pipeline.environment.record import EnvironmentRecord
from pipeline.models.base import ModelError, with_words
from pipeline.store import Store
from sandbox.errors import EnvironmentFailed, SandboxError
from sandbox.frozen import replace


def run_interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Run `work` and return its exit code; a signal cancels it, and 128 + the signal is returned.

    Raises:
        KeyboardInterrupt: Ctrl-C, after `work` was cancelled.
    """
    signals = (signal.SIGTERM, signal.SIGHUP)  # Ctrl-C cancels it by itself
    received: list[int] = []

    async def run() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)

        def stop(number: int) -> None:
            received.append(number)
            task.cancel()

        for each in signals:
            loop.add_signal_handler(each, stop, each)
        try:
            return await task
        except asyncio.CancelledError:
            if received:
                return 128 + received[0]
            raise
        finally:
            for each in signals:
                loop.remove_signal_handler(each)

    return asyncio.run(run())


@contextmanager
def open_display(*, json: bool = False, stages: bool = True) -> Generator[Display]:
    """Show progress on standard error until the block ends.

    `json`: one JSON object a line, unless a person watches. `stages`: list the stages of a run that
    fixes an issue.
    """
    if sys.stderr.isatty():
        from bot.cli.live_display import choose_live_display  # rich takes long to import

        display = choose_live_display(stages=stages) or Display()
    else:
        display = EventLines() if json else Display()
    token = CURRENT.set(display)
    try:
        with display.stopwatch:
            yield display
    finally:
        CURRENT.reset(token)
        display.close()


def add_input_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--repo", required=required, type=Path, metavar="DIR", help="a git repository"
    )
    parser.add_argument(
        "--issue", required=required, type=Path, metavar="FILE",
        help="a text file whose first line is the issue's title",
    )  # fmt: skip


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget", type=float, metavar="DOLLARS", help="spending limit at list prices"
    )
    add_method_option(parser, "the method that chooses one of several edits")
    parser.add_argument(
        "--finalists", type=int, metavar="N",
        help="the number of best edits among which a model chooses (default: 3)",
    )  # fmt: skip
    parser.add_argument(
        "--confidence", type=float, metavar="P",
        help="reject an edit that is less likely than this to be correct, from 0 to 1",
    )  # fmt: skip


def add_method_option(parser: argparse.ArgumentParser, help_text: str) -> None:
    parser.add_argument("--selection", choices=get_args(SelectionMethod), help=help_text)


def options_from_args(args: argparse.Namespace) -> dict[str, object]:
    """The pipeline's options that the command line sets; None for those it does not set."""
    return {
        "samples": getattr(args, "samples", None),
        "strategy": getattr(args, "strategy", None),
        "dollars": args.budget,
        "selection": args.selection,
        "finalists": args.finalists,
        "confidence": args.confidence,
        "all_revisions": getattr(args, "all_revisions", False) or None,
    }


async def run_and_report(work: Awaitable[int], args: argparse.Namespace, *, stages: bool) -> int:
    """Await `work` with a display and return its exit code; an error is shown as a sentence.

    With `args.json`, the display writes events; see `docs/fix.md`. `stages`: it lists the stages
    of a run that fixes an issue.
    """
    with open_display(json=args.json, stages=stages) as display:
        try:
            return await work
        except (WrongUsage, SettingsError) as error:
            display.end(USAGE, {"outcome": "wrong usage"})
            display.say(str(error))
            return USAGE
        except (
            RepositoryGone, RepositoryEmpty, CodebaseTooLarge, ModelError, SandboxError, GitFailed,
            GitHubError, OSError,
        ) as error:  # fmt: skip
            display.end(FAILED, {"outcome": "failed"})
            for sentence in _explain_error(error, args):
                display.say(sentence)
            return FAILED


def _explain_error(error: Exception, args: argparse.Namespace) -> Iterator[str]:
    match error:
        case RepositoryGone() | RepositoryEmpty():
            where = args.repo or args.url
            yield f"{where} no longer has the commit that the run started from: {error}."
        case CodebaseTooLarge():
            yield f"The repository is too large for Capuchin. {error}"
        case OSError():
            yield f"{error.filename or args.out}: {error.strerror or error}."
        case _:
            yield f"{type(error).__name__}: {with_words(error)}"
    if isinstance(error, EnvironmentFailed):
        yield f"Failed command: {error.command}\n{error.log.rstrip()}"
        yield (
            "Describe how to install it in .github/capuchin.yml (`setup`, `python` or "
            "`dockerfile`), commit the file, and run this again with another --out."
        )
    final = (RepositoryGone, RepositoryEmpty, CodebaseTooLarge, EnvironmentFailed)
    if args.out and not isinstance(error, final):
        yield "Progress is saved: run it again with the same --out to continue."


async def load_config(codebase: Codebase) -> RepoConfig:
    """The commit's settings file, or the defaults.

    Raises:
        WrongUsage: the file is not valid.
    """
    for path in CONFIG_PATHS:
        text = await codebase.read_text(path) if path in codebase.files else None
        if text is None:
            continue
        found = await asyncio.to_thread(parse_or_list_problems, text)
        if isinstance(found, list):
            raise WrongUsage("\n".join(f"{path}, line {e.line}: {e.message}" for e in found))
        return found
    return RepoConfig()


def with_overrides(options: Options, overrides: Mapping[str, object]) -> Options:
    """The repository's options, replaced by the command line's where those are not None.

    Raises:
        WrongUsage: an option is out of range.
    """
    update = {name: value for name, value in overrides.items() if value is not None}
    try:
        changed = Options.model_validate({**options.model_dump(), **update})
        return apply_preset(changed, explicit=update) if "strategy" in update else changed
    except ValidationError as error:
        known = {
            "samples": "--samples must be from 1 to 100",
            "dollars": "--budget must be more than 0",
            "finalists": "--finalists must be from 1 to 20",
            "confidence": "--confidence must be from 0 to 1",
        }
        wrong = {str(each["loc"][0]): each["msg"] for each in error.errors()}
        said = "; ".join(known.get(name, f"{name}: {text}") for name, text in wrong.items())
        raise WrongUsage(f"Out of range: {said}.") from None


def health_file(record: EnvironmentRecord | None) -> dict[str, bytes]:
    """`health.json` by its name; empty when nothing ran."""
    if record is None:
        return {}
    text = build_environment_report(record).model_dump_json(indent=1) + "\n"
    return {"health.json": text.encode()}


def write_results(
    out: Path, files: Mapping[str, bytes], *, facts: Mapping[str, object], issue: Issue
) -> None:
    """Write the results and the run's bundle into `out`; the run's store is `out/run`."""
    stale = [path for path in (out / FOLDER).glob("*.diff") if path.is_file()]
    stale += out.glob("reproduction_test.*")
    optional = ("patch.diff", "test.diff", "health.json")
    for path in (*(out / name for name in optional), *stale):
        path.unlink(missing_ok=True)
    for name, data in files.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_bytes(data)
    extra = {**files, "issue.json": issue.model_dump_json(indent=1).encode()}
    write_bundle(out / "run.tar.zst", out / "run", facts=facts, extra=extra)


def build_run_files(
    outcome: SolveOutcome,
    base_commit: CommitSha,
    hosts: tuple[str, ...] | None,
    seconds: BusySeconds | None = None,
) -> tuple[Report, dict[str, bytes]]:
    """The report, and all files by their names; `hosts` are those that received code."""
    report = replace(build_report(outcome, base_commit, hosts), seconds=seconds)
    result = outcome.result
    files = {
        "report.json": report.model_dump_json(indent=1).encode() + b"\n",
        "report.md": render_report(outcome, hosts).encode(),
        **health_file(outcome.environment),
        **candidate_files(result),
    }
    if isinstance(result, Selection) and result.is_proven:
        files["patch.diff"] = result.candidate.patch.diff.encode()
        if result.evidence.reproduction.rung != "the edit's own tests":
            suffix = Path(result.evidence.reproduction.path).suffix
            files[f"reproduction_test{suffix}"] = result.evidence.reproduction.text.encode()
            files["test.diff"] = result.evidence.reproduction.diff.encode()
    return report, files


async def build_job(
    start: Start,
    scope: str,
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
        codebase=dataclasses.replace(codebase, root=config.root),
        options=with_overrides(config.options(), overrides),
        scope=scope,
        environment=config.environment(),
        as_of=as_of,
        describe=describe,
    )


@asynccontextmanager
async def open_run(
    settings: Settings,
    owner: str,
    job: Job,
    store: Store,
    out: Path,
    *,
    expected: tuple[float, float] | None = None,
) -> AsyncGenerator[tuple[PipelineRunner, OnProgress]]:
    """Open a runner for `job`, and a listener that shows its progress on the command's display.

    If the repository cannot be installed, its health is written into `out`. `expected`: the usual
    duration in seconds.
    """
    display = CURRENT.get()

    def show(progress: Progress) -> None:
        display.show(progress, job.options.dollars)

    engine = build_engine(settings, owner=owner)
    try:
        tracker = ProgressTracker(show, Progress(expected=expected))
        yield PipelineRunner(settings, engine), tracker.report
    except EnvironmentFailed:
        for name, data in health_file(await store.load(FAILED_KEY, EnvironmentRecord)).items():
            await asyncio.to_thread((out / name).write_bytes, data)
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
    """Print the result of the run, and return the exit code.

    `result` is for standard output; `done` names a success.
    """
    code = {"fix": FIXED, "out of budget": OUT_OF_BUDGET}.get(report.outcome, NO_FIX)
    facts = {"outcome": report.outcome, "dollars": report.dollars}
    display = CURRENT.get()
    display.end(code, {**facts, "out": str(out) if out else None})
    sys.stdout.write(result)
    sys.stdout.flush()
    for note in price_notes(accounts):
        print_progress(note)
    took = describe_minutes(display.seconds)
    summary = f"{report.title or report.reason}, {took}, ${report.dollars:.2f} at list prices"
    if report.outcome == "fix" and report.confidence is not None:
        summary += f", {report.confidence:.0%} likely to be right"
    verdict = done if report.outcome == "fix" else report.outcome.capitalize()
    print_progress(f"{verdict}: {summary}.")
    if out:
        _tell_files(out)
    return code


def _tell_files(out: Path) -> None:
    diffs = [out / name for name in ("patch.diff", "test.diff") if (out / name).is_file()]
    if diffs:
        print_progress(f"Apply it: {shlex.join(['git', 'apply', *map(str, diffs)])}")
    print_progress(f"Report: {out / 'report.md'}")
