"""`capuchin fix --repo DIR --issue FILE`: one run on a local repository, without GitHub."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from bot.bundle import write_bundle
from bot.checkout import Mirrors
from bot.remote import Remote
from bot.repo_config import CANDIDATES, ConfigProblem, RepoConfig, parse
from bot.report import as_markdown, report_of
from bot.settings import Settings, SettingsError
from bot.steps import Steps
from bot.workshop import Job, Outcome, Workshop, engine_of
from pipeline.codebase import Codebase
from pipeline.git import GitFailed, git
from pipeline.models.base import ModelError
from pipeline.store import DirStore
from pipeline.types import Issue, Selection
from sandbox.base import SandboxError

FIXED, FAILED, USAGE, NO_FIX, OUT_OF_BUDGET = 0, 1, 2, 3, 4
ISSUE_BYTES = 1024 * 1024
Parser = TypeVar("Parser", bound=argparse.ArgumentParser)


class WrongUsage(Exception):
    """The command cannot begin; `str(error)` says what to change."""


class Start(BaseModel):
    """What a run began from. Started again with the same `--out`, it goes on from there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: str
    issue: str
    """SHA-256 of the issue file."""
    base_commit: str


@dataclass(frozen=True)
class Order:
    """The command line, read and checked."""

    repo: Path
    issue: Issue
    digest: str
    out: Path
    json: bool
    samples: int | None
    budget: float | None


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:  # pyright: ignore[reportPrivateUsage] - argparse names its type so
    """Adds the command to `capuchin`."""
    parser = subparsers.add_parser(
        "fix",
        help="fix an issue in a local repository",
        description="Works on the last commit. Started again with the same --out, it goes on "
        "where it stopped. Exit codes: 0 a fix was chosen, 3 no fix, 4 out of budget, 1 failed, "
        "2 wrong usage.",
    )
    parser.add_argument("--repo", required=True, type=Path, metavar="DIR", help="a git repository")
    parser.add_argument(
        "--issue", required=True, type=Path, metavar="FILE",
        help="text: the first line is the title",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("capuchin-run"), metavar="DIR",
        help="for the results (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--samples", type=int, metavar="N", help="how many edits are tried")
    parser.add_argument("--budget", type=float, metavar="DOLLARS", help="ceiling at list prices")
    parser.add_argument("--json", action="store_true", help="print report.json on standard output")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(command(args))


async def command(args: argparse.Namespace, settings: Settings | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        return await _fix(_order(args), settings or Settings.from_env())
    except (WrongUsage, SettingsError) as error:
        say(str(error))
        return USAGE
    except (ModelError, SandboxError, GitFailed) as error:
        say(f"{type(error).__name__}: {error}")
        say("What was done is kept: start again with the same --out to go on.")
        return FAILED


def say(sentence: str) -> None:
    """Progress and prose go to standard error; standard output is for `--json`."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()


def _order(args: argparse.Namespace) -> Order:
    try:
        with args.issue.open("rb") as file:
            data = file.read(ISSUE_BYTES)
    except OSError as error:
        raise WrongUsage(f"{args.issue}: {error.strerror}.") from None
    title, _, body = data.decode("utf-8", "replace").strip().partition("\n")
    if not title:
        raise WrongUsage(f"{args.issue} is empty: its first line is the issue's title.")
    repo = args.repo.resolve()
    if not repo.is_dir():
        raise WrongUsage(f"{args.repo} is no directory.")
    return Order(
        repo=repo,
        issue=Issue(repository=repo.name, title=title.strip(), body=body.strip()),
        digest=hashlib.sha256(data).hexdigest(),
        out=args.out.resolve(),
        json=args.json,
        samples=args.samples,
        budget=args.budget,
    )


async def _fix(order: Order, settings: Settings) -> int:
    store = DirStore(order.out / "run")
    start = await _started(order, store)
    remote = Remote(order.repo.as_uri())
    mirrors = Mirrors(order.out)
    checkout = await mirrors.checkout(remote, "local/repository", "HEAD", base=start.base_commit)
    codebase = await Codebase.open(checkout.git_dir, checkout.base)
    job = await _job(order, codebase, start)
    engine = engine_of(settings)
    try:
        outcome = await Workshop(settings, engine).solve(job, store, steps=Steps(), say=say)
    finally:
        await engine.close()
    return await asyncio.to_thread(_leave, order, start, outcome)


async def _started(order: Order, store: DirStore) -> Start:
    """The start kept in `--out`, or a new one at the repository's last commit."""
    start = await store.load("start", Start)
    if start is not None:
        if (start.repository, start.issue) != (str(order.repo), order.digest):
            raise WrongUsage(f"{order.out} holds another run: choose another --out.")
        say(f"Going on with the run in {order.out}.")
        return start
    try:
        head = await git(None, "rev-parse", "--verify", "HEAD^{commit}", cwd=order.repo)
    except GitFailed as failure:
        said = failure.words.splitlines()[0] if failure.words else "no commit"
        raise WrongUsage(f"{order.repo}: {said}") from None
    if await git(None, "status", "--porcelain", cwd=order.repo):
        say("Changes that are not committed are left out.")
    start = Start(repository=str(order.repo), issue=order.digest, base_commit=head.decode().strip())
    await store.save("start", start)
    return start


async def _job(order: Order, codebase: Codebase, start: Start) -> Job:
    config = await _config(codebase)
    given = {"samples": order.samples, "dollars": order.budget}
    options = config.options()
    update = {name: value for name, value in given.items() if value is not None}
    try:
        options = type(options).model_validate({**options.model_dump(), **update})
    except ValueError:
        raise WrongUsage("--samples is from 1 to 100, and --budget more than 0.") from None
    digest = hashlib.sha256(start.model_dump_json().encode()).hexdigest()
    return Job(
        run_id=f"cli-{digest[:16]}",
        issue=order.issue,
        codebase=codebase,
        options=options,
        setup=config.setup,
    )


async def _config(codebase: Codebase) -> RepoConfig:
    for path in CANDIDATES:
        text = await codebase.text(path) if path in codebase.files else None
        if text is None:
            continue
        found = parse(text)
        if isinstance(found, ConfigProblem):
            raise WrongUsage(f"{path}, line {found.line}: {found.message}")
        return found
    return RepoConfig()


def _leave(order: Order, start: Start, outcome: Outcome) -> int:
    """Write the results and say how it ended; the exit code."""
    report = report_of(outcome, start.base_commit)
    files = {
        "report.json": report.model_dump_json(indent=1).encode() + b"\n",
        "report.md": as_markdown(outcome).encode(),
    }
    result = outcome.result
    if isinstance(result, Selection):
        files["patch.diff"] = result.candidate.patch.diff.encode()
        files["reproduction_test.py"] = result.evidence.reproduction.text.encode()
    for name in ("patch.diff", "reproduction_test.py"):
        (order.out / name).unlink(missing_ok=True)
    for name, data in files.items():
        (order.out / name).write_bytes(data)
    facts = {"base_commit": start.base_commit, "image": outcome.image, "outcome": report.outcome}
    issue = order.issue.model_dump_json(indent=1).encode()
    write_bundle(
        order.out / "run.tar.zst",
        order.out / "run",
        facts=facts,
        extra={**files, "issue.json": issue},
    )
    if order.json:
        sys.stdout.write(files["report.json"].decode())
    told = f"{report.title or report.reason}, ${report.dollars:.2f} at list prices"
    say(f"{report.outcome.capitalize()}: {told}. See {order.out}.")
    return {"fix": FIXED, "no fix": NO_FIX, "out of budget": OUT_OF_BUDGET}[report.outcome]
