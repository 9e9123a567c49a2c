"""Input, start and output of the commands that work on a local repository."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.cli.terminal import printable, render_progress_bar
from bot.errors import BotError
from bot.repo_config.model import CONFIG_PATHS, ConfigProblem, RepoConfig, parse_config
from bot.visible_text import visible_text
from pipeline.bundle.write import write_bundle
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed, git
from pipeline.options import Options
from pipeline.store import Store
from pipeline.types import Issue

FIXED, FAILED, USAGE, NO_FIX, OUT_OF_BUDGET = 0, 1, 2, 3, 4
EXIT_CODES: Final = {"fix": FIXED, "no fix": NO_FIX, "out of budget": OUT_OF_BUDGET}
"""Maps the outcome in `report.json` to the exit code."""
MAX_ISSUE_BYTES = 1024 * 1024
UTF16_BOMS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The first bytes of UTF-16 text, which some shells write."""
_RANGE_MESSAGES: Final = {
    "samples": "--samples must be from 1 to 100",
    "dollars": "--budget must be more than 0",
    "confidence": "--confidence must be from 0 to 1",
}
_FIX_FILES: Final = ("patch.diff", "reproduction_test.py")
"""Files that only a run with a fix writes."""


class WrongUsage(BotError):
    """The command cannot start; `str(error)` says what to change."""


class Start(BaseModel):
    """The start of a run, saved so that the same `--out` continues it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: str
    issue: str
    """SHA-256 of the input: the issue file, and the edits if there are any."""
    base_commit: str

    @property
    def run_id(self) -> str:
        """The same every time the run is continued."""
        return f"cli-{hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]}"


def print_progress(sentence: str) -> None:
    """Print progress to standard error; standard output is for `--json`."""
    sentence = printable(sentence)
    drawn = render_progress_bar(sentence)
    if drawn is None:
        sys.stderr.write(sentence + "\n")
    elif sys.stderr.isatty():
        sys.stderr.write(f"\r{drawn.bar} {sentence}" + ("\n" if drawn.done else ""))
    elif drawn.at_tenth:  # a log does not need every percent
        sys.stderr.write(sentence + "\n")
    sys.stderr.flush()


def _resolve_directory(folder: Path) -> Path:
    if not folder.is_dir():
        raise WrongUsage(f"{folder} is not a directory.")
    return folder.resolve()


async def find_repository(folder: Path) -> Path:
    """The absolute path of the repository around `folder`: its top level, or the bare repository.

    Raises:
        WrongUsage: `folder` is not a directory, or not in a repository.
    """
    repo = await asyncio.to_thread(_resolve_directory, folder)
    try:
        bare = await git(None, "rev-parse", "--is-bare-repository", cwd=repo)
        what = "--absolute-git-dir" if bare.strip() == b"true" else "--show-toplevel"
        top = await git(None, "rev-parse", what, cwd=repo)
    except GitFailed as failure:
        if "not a git repository" in failure.words:
            raise WrongUsage(
                f"{folder} is not a git repository: run `git init` there and commit its files."
            ) from None
        raise WrongUsage(f"{folder}: {_first_line(failure.words)}") from None
    return Path(os.fsdecode(top.removesuffix(b"\n")))


def read_issue(path: Path, repo: Path) -> tuple[Issue, str]:
    """Read the issue file, whose first line is the title; return the issue and the file's SHA-256.

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
    title, _, body = visible_text(text).partition("\n")
    if not title:
        raise WrongUsage(f"{path} is empty: its first line must be the issue's title.")
    issue = Issue(repository=repo.name, title=title.strip(), body=body.strip())
    return issue, sha256_hex(data)


def sha256_hex(data: bytes) -> str:
    """A digest of a run's input, which identifies the folder of another run."""
    return hashlib.sha256(data).hexdigest()


async def load_or_create_start(repo: Path, digest: str, out: Path, store: Store) -> Start:
    """The start saved in `out`, or a new one at the repository's last commit.

    Raises:
        WrongUsage: `out` contains another run or is not writable, or the repository has no commits.
    """
    if out == repo:
        raise WrongUsage(f"{out} is the repository itself: choose another --out.")
    start = await load_start(store, out, str(repo), digest)
    if start is not None:
        return start
    try:
        head = await git(None, "rev-parse", "--verify", "HEAD^{commit}", cwd=repo)
    except GitFailed:
        raise WrongUsage(f"{repo} has no commits yet: commit its files first.") from None
    bare = await git(None, "rev-parse", "--is-bare-repository", cwd=repo)
    if bare.strip() != b"true" and await git(None, "status", "--porcelain", cwd=repo):
        print_progress("Uncommitted changes are ignored.")
    start = Start(repository=str(repo), issue=digest, base_commit=head.decode().strip())
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
        found = parse_config(text)
        if isinstance(found, ConfigProblem):
            raise WrongUsage(f"{path}, line {found.line}: {found.message}")
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


def _first_line(words: str) -> str:
    return next(iter(words.splitlines()), "git cannot read it")


def write_results(
    out: Path, files: Mapping[str, bytes], *, facts: Mapping[str, object], issue: Issue
) -> None:
    """Write the results and the run's bundle into `out`; the run's store is `out/run`."""
    for name in _FIX_FILES:
        (out / name).unlink(missing_ok=True)
    for name, data in files.items():
        (out / name).write_bytes(data)
    extra = {**files, "issue.json": issue.model_dump_json(indent=1).encode()}
    write_bundle(out / "run.tar.zst", out / "run", facts=facts, extra=extra)
