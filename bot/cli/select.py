"""`capuchin select`: the selector alone, over diffs and branches from anywhere."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bot.cli import Commands
from bot.cli.local_run import (
    EXIT_CODES,
    Start,
    WrongUsage,
    config_of,
    leave,
    overridden,
    read_issue,
    repository_of,
    say,
    started,
)
from bot.cli.options import add_choosing, add_input, ended, given
from bot.cli.report import Report, as_markdown, report_of, report_of_choice
from bot.cli.terminal import printable
from bot.comments.pull_request import price_notes
from bot.comments.verdict import verdict_of
from bot.git.mirrors import Mirrors
from bot.git.remote import Remote
from bot.runner.models import check_models, solver_is_set
from bot.runner.runner import Workshop
from bot.runner.sandbox import SELECT, engine_of
from bot.runner.types import Ask, Chosen, Job, Outcome
from bot.settings import Settings
from bot.storage.draining import Steps
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed, git
from pipeline.edits.external import LARGEST, ForeignEdit, diff_between
from pipeline.options import Options
from pipeline.select import GivenTest
from pipeline.store import DirStore
from pipeline.types import Issue
from sandbox.scratch import scratch_folder

TEST_BYTES = 256 * 1024


@dataclass(frozen=True)
class Order:
    """The command line, read and checked."""

    repo: Path
    issue: Issue
    digest: str
    patches: tuple[ForeignEdit, ...]
    branches: tuple[str, ...]
    tests: tuple[GivenTest, ...]


def register(subparsers: Commands) -> None:
    """Adds the command to `capuchin`."""
    parser = subparsers.add_parser(
        "select",
        help="choose among edits from anywhere",
        description="Runs every test on every edit and names the best, or none. Where no test is "
        "given or brought and a solver is set, tests are written. Started again with the same "
        "--out, it goes on where it stopped. Exit codes: 0 one was chosen, 3 none, 4 out of "
        "budget, 1 failed, 2 wrong usage.",
    )
    add_input(parser)
    parser.add_argument(
        "--patch", action="append", default=[], type=Path, metavar="A.diff",
        help="an edit of the last commit, as git or diff writes it; any number of times",
    )  # fmt: skip
    parser.add_argument(
        "--branch", action="append", default=[], metavar="NAME",
        help="an edit: what a branch of the repository has beyond its last commit",
    )  # fmt: skip
    parser.add_argument(
        "--test", action="append", default=[], type=Path, metavar="T.py",
        help="a script that ends with 0 where the issue is fixed and with 2 where not, or a test "
        "file; any number of times",
    )  # fmt: skip
    add_choosing(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="for patch.diff, the reports and the bundle"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(command(args))


async def command(args: argparse.Namespace, settings: Settings | None = None) -> int:
    """Run the command and return its exit code."""
    with ExitStack() as stack:
        out = args.out.resolve() if args.out else _scratch(stack)
        return await ended(_select(args, out, settings), args)


def _scratch(stack: ExitStack) -> Path:
    return stack.enter_context(scratch_folder("select"))


async def _order(args: argparse.Namespace) -> Order:
    repo = await repository_of(args.repo)
    overridden(Options(), given(args))
    issue, digest = read_issue(args.issue, repo)
    patches = [ForeignEdit(str(path), _read(path, LARGEST + 1)) for path in args.patch]
    if not patches and not args.branch:
        raise WrongUsage("There is nothing to choose from: give --patch or --branch.")
    tests = [_test(path) for path in args.test]
    parts = [digest.encode(), *(edit.diff for edit in patches), *map(str.encode, args.branch)]
    parts += [test.text.encode() for test in tests]
    whole = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts))
    return Order(repo, issue, whole.hexdigest(), tuple(patches), tuple(args.branch), tuple(tests))


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}.") from None


def _test(path: Path) -> GivenTest:
    data = _read(path, TEST_BYTES + 1)
    if len(data) > TEST_BYTES:
        raise WrongUsage(f"{path} is larger than {TEST_BYTES // 1024} KiB.")
    return GivenTest(path.stem, data.decode("utf-8", "replace"))


async def _select(args: argparse.Namespace, out: Path, settings: Settings | None) -> int:
    order, settings = await _order(args), settings or Settings.from_env()
    if solver_is_set(settings):
        check_models(settings, ("solver_model",))
    store = DirStore(out / "run")
    start = await started(order.repo, order.digest, out, store)
    remote = Remote(order.repo.as_uri())
    checkout = await Mirrors(out).checkout(
        remote, "local/repository", "HEAD", base=start.base_commit
    )
    codebase = await Codebase.open(checkout.git_dir, checkout.base)
    edits = [*order.patches, *await _branches(order, start.base_commit)]
    config = await config_of(codebase)
    job = Job(
        run_id=start.run_id,
        issue=order.issue,
        codebase=codebase,
        options=overridden(config.options(), given(args)),
        setup=config.setup,
        dockerfile=config.dockerfile,
        python=config.python,
    )
    engine = engine_of(settings, owner=SELECT)
    try:
        chosen = await Workshop(settings, engine).choose(
            job, Ask(edits, order.tests), store, steps=Steps(), say=say
        )
    finally:
        await engine.close()
    return await asyncio.to_thread(_leave, args, out, order, start, chosen)


async def _branches(order: Order, base: str) -> Sequence[ForeignEdit]:
    """What each branch has beyond where it left the base commit's history."""
    edits: list[ForeignEdit] = []
    for name in order.branches:
        try:
            found = await git(
                None, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}",
                cwd=order.repo,
            )  # fmt: skip
        except GitFailed:
            raise WrongUsage(f"{order.repo} has no branch {name}.") from None
        head = found.decode().split()[-1]
        forked = await git(None, "merge-base", base, head, cwd=order.repo, accept=(0, 1))
        if not forked:
            edits.append(
                ForeignEdit(name, b"", "It has no history in common with the last commit.")
            )
            continue
        since = forked.decode().split()[0]
        edits.append(await diff_between(None, since, head, name, cwd=order.repo))
    return edits


def _leave(
    args: argparse.Namespace, out: Path, order: Order, start: Start, chosen: Chosen | Outcome
) -> int:
    """Write the results and say how it ended; the exit code."""
    report, text = _reported(chosen, start)
    data = report.model_dump_json(indent=1).encode() + b"\n"
    if args.out:
        files = {"report.json": data, "report.md": text.encode()}
        taken = chosen.choice.judged.chosen if isinstance(chosen, Chosen) else None
        if taken is not None and report.outcome == "fix":
            files["patch.diff"] = taken.patch.diff.encode("utf-8", "surrogatepass")
        facts = {"base_commit": start.base_commit, "image": chosen.image, "outcome": report.outcome}
        leave(out, files, facts=facts, issue=order.issue)
    if args.json:
        sys.stdout.write(data.decode())
    elif not args.out:
        sys.stdout.write(printable(text))
    for note in price_notes(chosen.accounts):
        say(note)
    told = f"{report.title or report.reason}, ${report.dollars:.2f} at list prices"
    where = f" See {out}." if args.out else ""
    say(f"{'Chosen' if report.outcome == 'fix' else report.outcome.capitalize()}: {told}.{where}")
    return EXIT_CODES[report.outcome]


def _reported(chosen: Chosen | Outcome, start: Start) -> tuple[Report, str]:
    if isinstance(chosen, Chosen):
        text = f"# Verdict\n\n{verdict_of(chosen)}\n"
        return report_of_choice(chosen, start.base_commit), text
    return report_of(chosen, start.base_commit), as_markdown(chosen)
