"""The job of `fix` and `select`: input, run, files that it leaves."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.cli.display import CURRENT, print_progress
from bot.cli.local_repository import list_refs, name_repository
from bot.cli.report import FOLDER, Report, build_report, candidate_files, render_report
from bot.comments.evidence import describe_minutes
from bot.comments.pull_request import price_notes
from bot.comments.run_details import build_environment_report
from bot.data.job import Job, SolveOutcome
from bot.data.progress import Progress, ProgressTracker
from bot.data.run import RunId
from bot.errors import BotError
from bot.repo_config.model import CONFIG_PATHS, RepoConfig, parse_or_list_problems
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import build_engine
from bot.settings import Settings
from bot.visible_text import strip_invisible, visible_text
from pipeline.bundle import write_bundle
from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.data.progress import OnProgress
from pipeline.data.types import Account, CommitSha, Issue, Selection
from pipeline.environment.prepare import FAILED_KEY
from pipeline.environment.record import EnvironmentRecord
from pipeline.run_errors import OtherFormat
from pipeline.store import Store
from sandbox.errors import EnvironmentFailed
from sandbox.frozen import replace

FIXED, FAILED, USAGE, NO_FIX, OUT_OF_BUDGET = 0, 1, 2, 3, 4
EXIT_CODES: Final = {
    "fix": FIXED,
    "unproven": NO_FIX,
    "no fix": NO_FIX,
    "out of budget": OUT_OF_BUDGET,
}
"""Maps the outcome in `report.json` to the exit code."""
MAX_ISSUE_BYTES = 1024 * 1024
UTF16_BOMS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The first bytes of UTF-16 text, which some shells write."""
_RANGE_MESSAGES: Final = {
    "samples": "--samples must be from 1 to 100",
    "dollars": "--budget must be more than 0",
    "finalists": "--finalists must be from 1 to 20",
    "confidence": "--confidence must be from 0 to 1",
}
HEALTH_FILE: Final = "health.json"
_FIX_FILES: Final = ("patch.diff", "reproduction_test.py", "test.diff")
"""Files that only a run with a fix writes."""


class WrongUsage(BotError):
    """The command cannot start; `str(error)` says what to change."""


class Start(BaseModel):
    """The start of a run, saved so that the same `--out` continues it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: str
    issue: str
    """SHA-256 of the input: the issue file, and the edits if there are any."""
    base_commit: CommitSha

    @property
    def run_id(self) -> RunId:
        """The same every time the run is continued."""
        return RunId(f"cli-{hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]}")


def read_issue(path: Path) -> tuple[Issue, str]:
    """Read the issue file, whose first line is the title; return the issue and the file's SHA-256.

    `build_job` adds the repository's name.

    Raises:
        WrongUsage: the file is unreadable, too large, not text, or empty.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_ISSUE_BYTES + 1)
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}.") from None
    if len(data) > MAX_ISSUE_BYTES:
        raise WrongUsage(f"{path} is larger than {MAX_ISSUE_BYTES // 1024} KiB: shorten its logs.")
    try:
        text = data.decode("utf-16" if data[:2] in UTF16_BOMS else "utf-8-sig")
    except UnicodeDecodeError:
        raise WrongUsage(f"{path} is not text in UTF-8 or UTF-16.") from None
    first, _, rest = text.strip().partition("\n")
    title = strip_invisible(first).strip()  # GitHub shows a title as it is: `a/<b>/c`
    if not title:
        raise WrongUsage(f"{path} is empty: its first line must be the issue's title.")
    issue = Issue(repository="", title=title, body=visible_text(rest).strip())
    return issue, sha256_hex(data)


def sha256_hex(data: bytes) -> str:
    """A digest of a run's input, which identifies the folder of another run."""
    return hashlib.sha256(data).hexdigest()


async def load_or_create_start(repo: Path, digest: str, out: Path, store: Store) -> Start:
    """The start saved in `out`, or a new one at the repository's last commit.

    Raises:
        WrongUsage: `out` contains another run or is not writable, or the repository has no commits.
        NoRepository: git cannot read the repository.
    """
    if out == repo:
        raise WrongUsage(f"{out} is the repository itself: choose another --out.")
    start = await load_start(store, out, str(repo), digest)
    if start is not None:
        return start
    head = (await list_refs(repo)).get("HEAD")
    if head is None:
        raise WrongUsage(f"{repo} has no commits yet: commit its files first.")
    print_progress(f"Working on the last commit, {head[:10]}. Uncommitted changes are ignored.")
    start = Start(repository=str(repo), issue=digest, base_commit=head)
    await save_start(store, out, start)
    return start


async def load_start(store: Store, out: Path, repository: str, digest: str) -> Start | None:
    """The start saved in `out`; None if there is none.

    Raises:
        WrongUsage: it belongs to another run, or cannot be read.
    """
    try:
        start = await store.load("start", Start)
    except OSError as error:
        raise WrongUsage(f"Cannot read {out}: {error.strerror}.") from None
    except OtherFormat as error:
        raise WrongUsage(f"{out}: {error} Choose another --out for that.") from None
    if start is None:
        return None
    if (start.repository, start.issue) != (repository, digest):
        raise WrongUsage(f"{out} contains another run: choose another --out.")
    print_progress(f"Continuing the run in {out}.")
    return start


async def save_start(store: Store, out: Path, start: Start) -> None:
    """Save `start` in `out`.

    Raises:
        WrongUsage: `out` is not writable.
    """
    try:
        await asyncio.to_thread(create_folder, out)
        await store.save("start", start)
    except OSError as error:
        raise WrongUsage(f"Cannot write {out}: {error.strerror}.") from None


def create_folder(out: Path) -> None:
    """Create `out` with a `.gitignore`, so that git ignores the results inside a repository."""
    if not out.exists():
        out.mkdir(parents=True)
        (out / ".gitignore").write_text("*\n", encoding="ascii")


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
        return Options.model_validate({**options.model_dump(), **update})
    except ValidationError as error:
        wrong = dict.fromkeys(str(each["loc"][0]) for each in error.errors())
        ranges = "; ".join(_RANGE_MESSAGES.get(name, name) for name in wrong)
        raise WrongUsage(f"Out of range: {ranges}.") from None


async def save_failed_environment(out: Path, store: Store) -> None:
    """Write `health.json` for a repository that could not be installed."""
    record = await store.load(FAILED_KEY, EnvironmentRecord)
    for name, data in health_file(record).items():
        await asyncio.to_thread((out / name).write_bytes, data)


def health_file(record: EnvironmentRecord | None) -> dict[str, bytes]:
    """`health.json` by its name; empty when nothing ran."""
    if record is None:
        return {}
    text = build_environment_report(record).model_dump_json(indent=1) + "\n"
    return {HEALTH_FILE: text.encode()}


def write_results(
    out: Path, files: Mapping[str, bytes], *, facts: Mapping[str, object], issue: Issue
) -> None:
    """Write the results and the run's bundle into `out`; the run's store is `out/run`."""
    stale = [path for path in (out / FOLDER).glob("*.diff") if path.is_file()]
    for path in (*(out / name for name in (*_FIX_FILES, HEALTH_FILE)), *stale):
        path.unlink(missing_ok=True)
    for name, data in files.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_bytes(data)
    extra = {**files, "issue.json": issue.model_dump_json(indent=1).encode()}
    write_bundle(out / "run.tar.zst", out / "run", facts=facts, extra=extra)


def build_run_files(
    outcome: SolveOutcome, base_commit: CommitSha, hosts: tuple[str, ...] | None
) -> tuple[Report, dict[str, bytes]]:
    """The report, and all files by their names; `hosts` are those that received code."""
    report = build_report(outcome, base_commit, hosts)
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
            files["reproduction_test.py"] = result.evidence.reproduction.text.encode()
            files["test.diff"] = result.evidence.reproduction.diff.encode()
    return report, files


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
    """A runner, and what shows on the command's display how far a run has come."""

    runner: PipelineRunner
    report: OnProgress


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
        tracker = ProgressTracker(show, Progress(expected=expected))
        yield ShownRun(PipelineRunner(settings, engine), tracker.report)
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
