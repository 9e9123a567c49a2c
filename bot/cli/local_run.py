"""A run from the command line: its options, its job, its errors, and the files that it leaves."""

import argparse
import asyncio
import dataclasses
import hashlib
import json
import re
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
)
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bot.cli import FAILED, FIXED, NO_FIX, OUT_OF_BUDGET, USAGE
from bot.cli.display import CURRENT, Display, EventLines, print_progress
from bot.cli.out_folder import hold_folder
from bot.cli.report import FOLDER, Report, build_report, list_edits, render_report
from bot.cli.run_input import (
    Start,
    WrongUsage,
    describe_commit,
    fetch_local,
    find_repository,
    load_or_create_start,
    name_repository,
    read_issue,
)
from bot.cli.stopwatch import SECONDS_KEY, BusySeconds
from bot.comments.evidence import describe_minutes
from bot.comments.pull_request import price_notes
from bot.comments.run_details import dump_environment
from bot.data.job import Job, Outcome
from bot.data.progress import Progress, ProgressTracker
from bot.errors import GitHubError, RepositoryEmpty, RepositoryGone
from bot.git.mirrors import Checkout
from bot.repo_config.model import CONFIG_PATHS, RepoConfig, parse_or_list_problems
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import build_engine
from bot.safe_text import printable
from bot.settings import Settings, SettingsError, find_unknown_variables
from pipeline.bundle import write_bundle
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import CodebaseTooLarge, GitFailed
from pipeline.data.options import Options
from pipeline.data.presets import apply_preset
from pipeline.data.progress import OnProgress
from pipeline.data.types import CommitSha, Issue, NoFix, Selection
from pipeline.environment.prepare import FAILED_KEY
from pipeline.environment.record import NO_INDEX, EnvironmentRecord
from pipeline.models.base import ModelError, with_words
from pipeline.select import Choice
from pipeline.store import Store, digest
from prompts.text import describe_dollars
from sandbox.errors import EnvironmentFailed, SandboxError
from sandbox.frozen import replace
from sandbox.scratch import scratch_folder


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


@dataclass(frozen=True, kw_only=True)
class LocalRequest:
    """What the command line asks of a run."""

    repo: Path | None
    issue: Path | None
    url: str | None = None
    """The issue on GitHub, instead of `repo` and `issue`."""
    out: Path | None
    root: str = ""
    """The project's folder; empty: as the settings file says. `capuchin fix` alone has it."""
    json: bool
    options: Mapping[str, object]
    """The pipeline's options that the command line sets; they win over the settings file."""

    @classmethod
    def read(cls, args: argparse.Namespace) -> Self:
        given: dict[str, Any] = vars(args)
        named = {name: given.get(name) for name in ("samples", "strategy", "dollars")}
        options = {**dict(given["set"]), **{n: one for n, one in named.items() if one is not None}}
        known = given.keys() & {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: given[name] for name in known}, options=options)


def add_run_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options of `LocalRequest` but `--out`; `required`: there is no other input."""
    parser.add_argument(
        "--repo", required=required, type=Path, metavar="DIR", help="a git repository"
    )
    parser.add_argument(
        "--issue", required=required, type=Path, metavar="FILE",
        help="a text file whose first line is the issue's title",
    )  # fmt: skip
    parser.add_argument(
        "--budget", dest="dollars", type=float, metavar="DOLLARS",
        help="spending limit at list prices",
    )  # fmt: skip
    add_set_option(
        parser, "another option of the run, such as selection=voting, finalists=5 or confidence=0.5"
    )
    parser.add_argument("--json", action="store_true", help="print report.json on standard output")


def add_set_option(parser: argparse.ArgumentParser, words: str) -> None:
    """Add `--set`."""
    parser.add_argument(
        "--set", action="append", default=[], type=_parse_setting, metavar="NAME=VALUE",
        help=f"{words}; repeat for others. Values are JSON, or else text",
    )  # fmt: skip


def _parse_setting(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


async def run_and_report(
    work: Callable[[Path], Awaitable[int]], request: LocalRequest, *, stages: bool
) -> int:
    """Await `work` in the folder of `--out` and return its exit code; an error is shown as a
    sentence. Without `--out`, the folder is removed in the end.

    With `request.json`, the display writes events; see `docs/fix.md`. `stages`: it lists the stages
    of a run that fixes an issue.
    """
    place = nullcontext(request.out) if request.out else scratch_folder("run")
    with open_display(json=request.json, stages=stages) as display, place as out:
        try:
            with_overrides(Options(), request.options)
            for sentence in find_unknown_variables():
                display.say(sentence)
            out = await asyncio.to_thread(out.resolve)
            with hold_folder(out) if request.out else nullcontext():  # a scratch folder is held
                return await work(out)
        except (WrongUsage, SettingsError) as error:
            display.end(USAGE, {"outcome": "wrong usage"})
            display.say(str(error))
            return USAGE
        except (
            RepositoryGone, RepositoryEmpty, CodebaseTooLarge, ModelError, SandboxError, GitFailed,
            GitHubError, OSError,
        ) as error:  # fmt: skip
            display.end(FAILED, {"outcome": "failed"})
            for sentence in _explain_error(error, request):
                display.say(sentence)
            return FAILED


def _explain_error(error: Exception, request: LocalRequest) -> Iterator[str]:
    match error:
        case RepositoryGone() | RepositoryEmpty():
            where = request.repo or request.url
            yield f"{where} no longer has the commit that the run started from: {error}."
        case CodebaseTooLarge():
            yield f"The repository is too large for Capuchin. {error}"
        case OSError():
            yield f"{error.filename or request.out}: {error.strerror or error}."
        case _:
            yield with_words(error) or f"It failed with {type(error).__name__}."
    if isinstance(error, EnvironmentFailed):
        yield f"Failed command: {error.command}\n{error.log.rstrip()}"
        yield (
            "Run this again with another --out when it answers."
            if NO_INDEX in str(error)
            else "Describe how to install it in .github/capuchin.yml (`setup` or `dockerfile`), "
            "commit the file, and run this again with another --out."
        )
    final = (RepositoryGone, RepositoryEmpty, CodebaseTooLarge, EnvironmentFailed)
    if request.out and not isinstance(error, final):
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
    """The repository's options, replaced by the command line's.

    Raises:
        WrongUsage: an option is unknown, or out of range.
    """
    update = {name: value for name, value in overrides.items() if value is not None}
    try:
        changed = Options.model_validate({**options.model_dump(), **update})
        return apply_preset(changed, explicit=update) if "strategy" in update else changed
    except ValidationError as error:
        raise WrongUsage("; ".join(sorted({_explain_option(e) for e in error.errors()}))) from None


def _explain_option(error: ErrorDetails) -> str:
    name = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return f"--set: there is no option {name}."
    flag = {"samples": "--samples", "dollars": "--budget"}.get(name, f"--set {name}")
    return f"{flag}: {error['msg']}."


def health_file(record: EnvironmentRecord | None) -> dict[str, bytes]:
    """`health.json` by its name; empty when nothing ran."""
    if record is None:
        return {}
    text = json.dumps(dump_environment(record), indent=1) + "\n"
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
    outcome: Outcome[Selection | NoFix | Choice],
    base_commit: CommitSha,
    hosts: tuple[str, ...] | None,
    seconds: BusySeconds | None = None,
) -> tuple[Report, dict[str, bytes]]:
    """The report, and all files by their names; `hosts` are those that received code."""
    report = build_report(outcome, base_commit, hosts, seconds)
    return report, {
        "report.json": report.model_dump_json(indent=1).encode() + b"\n",
        "report.md": render_report(outcome, hosts).encode(),
        **health_file(outcome.environment),
        **list_edits(outcome.result),
    }


@dataclass(frozen=True)
class LocalInput:
    issue: Issue
    start: Start
    checkout: Checkout
    describe: Callable[[], Awaitable[str]]
    """Returns the output of `git describe` for the commit."""


def _digest(issue: str, *more: bytes) -> str:
    """That of the issue, and of the edits and tests if there are any."""
    return digest(issue, *(hashlib.sha256(one).hexdigest() for one in more)) if more else issue


async def read_input(
    request: LocalRequest, settings: Settings, out: Path, store: Store, *more: bytes
) -> LocalInput:
    """The issue, and the commit that the run in `out` began from; `more` is other input.

    Raises:
        WrongUsage: they cannot be read, or `out` contains another run.
        GitFailed, RepositoryGone: the repository is damaged, or lacks the commit.
    """
    assert request.repo is not None
    assert request.issue is not None
    repo = await find_repository(request.repo)
    issue, known = read_issue(request.issue)
    start = await load_or_create_start(repo, _digest(known, *more), out, store)
    checkout = await fetch_local(repo, start.base_commit, settings)
    return LocalInput(issue, start, checkout, partial(describe_commit, repo, checkout.base))


async def build_job(
    task: LocalInput, request: LocalRequest, scope: str, *, as_of: date | None = None
) -> Job:
    """The job at the commit, with the settings of its file under the command line's.

    Raises:
        WrongUsage: the settings file is not valid, or an option is out of range.
    """
    start, issue = task.start, task.issue
    codebase = await Codebase.open(task.checkout.git_dir, task.checkout.base)
    config = await load_config(codebase)
    if not issue.repository:
        name = await name_repository(Path(start.repository), codebase)
        issue = replace(issue, repository=name)
    return Job(
        run_id=start.run_id,
        issue=issue,
        codebase=await asyncio.to_thread(config.aim, codebase, issue, request.root),
        options=with_overrides(config.options(), request.options),
        scope=scope,
        environment=config.environment(),
        as_of=as_of,
        describe=task.describe,
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

    display.earlier = (await store.load(SECONDS_KEY, BusySeconds) or BusySeconds()).whole
    engine = build_engine(settings, owner=owner)
    try:
        tracker = ProgressTracker(show, Progress(expected=expected))
        yield PipelineRunner(settings, engine), tracker.report
    except BaseException as error:  # a signal ends it, too: the next start counts its time
        known = await store.load(FAILED_KEY, EnvironmentRecord)
        await display.stopwatch.read(store, known)
        if isinstance(error, EnvironmentFailed):
            for name, data in health_file(known).items():
                await asyncio.to_thread((out / name).write_bytes, data)
        raise
    finally:
        await engine.close()


async def finish(
    request: LocalRequest,
    task: LocalInput,
    outcome: Outcome[Selection | NoFix | Choice],
    out: Path,
    store: Store,
    *,
    hosts: tuple[str, ...] | None = None,
    done: str,
) -> int:
    """Write the results into `out`, print them, and return the exit code.

    `hosts` are those that received code; `done` names a success.
    """
    seconds = await CURRENT.get().stopwatch.read(store, outcome.environment)
    base = task.start.base_commit
    report, files = build_run_files(outcome, base, hosts, seconds)
    facts = {"base_commit": base, "image": outcome.image, "outcome": report.outcome}
    await asyncio.to_thread(write_results, out, files, facts=facts, issue=task.issue)
    code = {"fix": FIXED, "out of budget": OUT_OF_BUDGET}.get(report.outcome, NO_FIX)
    display = CURRENT.get()
    ended = {"outcome": report.outcome, "dollars": report.dollars}
    display.end(code, {**ended, "out": str(out) if request.out else None})
    if request.json:
        sys.stdout.write(files["report.json"].decode())
    elif not request.out:
        sys.stdout.write(printable(files["report.md"].decode()))
    sys.stdout.flush()
    for note in price_notes(outcome.accounts):
        print_progress(note)
    took = describe_minutes(seconds.whole or display.seconds)  # over all starts
    print_progress(end_sentence(report, done, took))
    if request.out:
        _tell_files(out)
    return code


def end_sentence(report: Report, done: str, took: str) -> str:
    """The last line on a terminal; `done` names a success."""
    spent = describe_dollars(report.dollars)
    title = re.sub(r"(?i)^fix(\([^)]{0,60}\))?: ", "", report.title)  # the verdict says it
    summary = f"{title or report.reason}, {took}, {spent} at list prices"
    if report.outcome == "fix" and report.confidence is not None:
        summary += f", {report.confidence:.0%} likely to be right"
    verdict = done if report.outcome == "fix" else report.outcome.capitalize()
    if report.proven is False and report.outcome == "fix":
        verdict = "Fix shown by a test; the repository's own tests do not prove it"
    is_said = report.reason == report.outcome and not title
    return (
        f"{verdict}{summary.removeprefix(report.reason)}." if is_said else f"{verdict}: {summary}."
    )


def _tell_files(out: Path) -> None:
    diffs = [out / name for name in ("patch.diff", "test.diff") if (out / name).is_file()]
    if diffs:
        CURRENT.get().show_edit(diffs[0].read_text("utf-8", "replace"))
        print_progress(f"Apply it: {shlex.join(['git', 'apply', *map(str, diffs)])}")
    print_progress(f"Report: {out / 'report.md'}")
