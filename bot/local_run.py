"""What commands on a local repository share: their input, their start, their output."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from bot.bar import drawn_bar
from bot.bundle import write_bundle
from bot.repo_config import CANDIDATES, ConfigProblem, RepoConfig, parse
from pipeline.codebase import Codebase
from pipeline.git import GitFailed, git
from pipeline.options import Options
from pipeline.store import DirStore
from pipeline.types import Issue

FIXED, FAILED, USAGE, NO_FIX, OUT_OF_BUDGET = 0, 1, 2, 3, 4
EXIT_CODES: Final = {"fix": FIXED, "no fix": NO_FIX, "out of budget": OUT_OF_BUDGET}
"""By the outcome that `report.json` tells."""
ISSUE_BYTES = 1024 * 1024
_LEFT: Final = ("patch.diff", "reproduction_test.py")
"""What only a run with a fix leaves."""


class WrongUsage(Exception):
    """The command cannot begin; `str(error)` says what to change."""


class Start(BaseModel):
    """What a run began from. Started again with the same `--out`, it goes on from there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: str
    issue: str
    """SHA-256 of what was asked: the issue file, and the edits where some are given."""
    base_commit: str

    @property
    def run_id(self) -> str:
        """The same whenever it goes on."""
        return f"cli-{hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]}"


def say(sentence: str) -> None:
    """Progress and prose go to standard error; standard output is for `--json`."""
    drawn = drawn_bar(sentence)
    if drawn is None:
        sys.stderr.write(sentence + "\n")
    elif sys.stderr.isatty():
        sys.stderr.write(f"\r{drawn.bar} {sentence}" + ("\n" if drawn.done else ""))
    elif drawn.tenth:  # a log need not hold each hundredth
        sys.stderr.write(sentence + "\n")
    sys.stderr.flush()


def repository_of(folder: Path) -> Path:
    """`--repo`, made absolute.

    Raises:
        WrongUsage: it is no directory.
    """
    repo = folder.resolve()
    if not repo.is_dir():
        raise WrongUsage(f"{folder} is no directory.")
    return repo


def read_issue(path: Path, repo: Path) -> tuple[Issue, str]:
    """`--issue`, whose first line is the title, and the file's SHA-256.

    Raises:
        WrongUsage: it cannot be read, or is empty.
    """
    try:
        with path.open("rb") as file:
            data = file.read(ISSUE_BYTES)
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}.") from None
    title, _, body = data.decode("utf-8", "replace").strip().partition("\n")
    if not title:
        raise WrongUsage(f"{path} is empty: its first line is the issue's title.")
    issue = Issue(repository=repo.name, title=title.strip(), body=body.strip())
    return issue, hashlib.sha256(data).hexdigest()


async def started(repo: Path, digest: str, out: Path, store: DirStore) -> Start:
    """The start kept in `--out`, or a new one at the repository's last commit.

    Raises:
        WrongUsage: `out` holds another run, or the repository has no commit.
    """
    start = await store.load("start", Start)
    if start is not None:
        if (start.repository, start.issue) != (str(repo), digest):
            raise WrongUsage(f"{out} holds another run: choose another --out.")
        say(f"Going on with the run in {out}.")
        return start
    try:
        head = await git(None, "rev-parse", "--verify", "HEAD^{commit}", cwd=repo)
    except GitFailed as failure:
        said = failure.words.splitlines()[0] if failure.words else "no commit"
        raise WrongUsage(f"{repo}: {said}") from None
    if await git(None, "status", "--porcelain", cwd=repo):
        say("Changes that are not committed are left out.")
    start = Start(repository=str(repo), issue=digest, base_commit=head.decode().strip())
    await store.save("start", start)
    return start


async def config_of(codebase: Codebase) -> RepoConfig:
    """The settings file of the commit.

    Raises:
        WrongUsage: it is not valid.
    """
    for path in CANDIDATES:
        text = await codebase.text(path) if path in codebase.files else None
        if text is None:
            continue
        found = parse(text)
        if isinstance(found, ConfigProblem):
            raise WrongUsage(f"{path}, line {found.line}: {found.message}")
        return found
    return RepoConfig()


def overridden(options: Options, given: Mapping[str, object]) -> Options:
    """The repository's options with those that the command line gives; None gives none.

    Raises:
        WrongUsage: one is out of its range.
    """
    update = {name: value for name, value in given.items() if value is not None}
    try:
        return Options.model_validate({**options.model_dump(), **update})
    except ValueError:
        raise WrongUsage(
            "--samples is from 1 to 100, --budget more than 0, and --confidence from 0 to 1."
        ) from None


def leave(
    out: Path, files: Mapping[str, bytes], *, facts: Mapping[str, object], issue: Issue
) -> None:
    """Write the results into `out`, and the bundle of the run whose store is `out/run`."""
    for name in _LEFT:
        (out / name).unlink(missing_ok=True)
    for name, data in files.items():
        (out / name).write_bytes(data)
    extra = {**files, "issue.json": issue.model_dump_json(indent=1).encode()}
    write_bundle(out / "run.tar.zst", out / "run", facts=facts, extra=extra)
