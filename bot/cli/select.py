"""`capuchin select`: chooses among diffs and branches from anywhere."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bot.cli import Subparsers
from bot.cli.display import CURRENT
from bot.cli.local_run import (
    add_input_options,
    add_selection_options,
    build_job,
    conclude,
    health_file,
    open_run,
    options_from_args,
    run_and_report,
    run_interruptible,
    with_overrides,
    write_results,
)
from bot.cli.out_folder import open_store
from bot.cli.report import Report, build_report, build_selection_report, render_report
from bot.cli.run_input import (
    Start,
    WrongUsage,
    describe_commit,
    fetch_history,
    fetch_local,
    find_commit,
    find_repository,
    list_refs,
    load_or_create_start,
    read_issue,
)
from bot.cli.stopwatch import BusySeconds
from bot.comments.candidates import render_verdict
from bot.data.job import SelectOutcome
from bot.runner.models import check_models, is_solver_set
from bot.runner.sandbox import SELECT_OWNER
from bot.safe_text import printable
from bot.settings import Settings
from bot.storage.workers import InFlightWork
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed, git
from pipeline.data.options import Options
from pipeline.data.types import CommitSha, Issue
from pipeline.edits.external import LARGEST, ExternalEdit, diff_commits
from pipeline.select import Choice, ExternalTest
from sandbox.frozen import replace
from sandbox.scratch import scratch_folder


@dataclass(frozen=True)
class SelectInput:
    repo: Path
    issue: Issue
    digest: str
    patches: tuple[ExternalEdit, ...]
    branches: tuple[str, ...]
    tests: tuple[ExternalTest, ...]


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "select",
        description="Runs every test on every edit and names the best edit, or none. If neither "
        "you nor the edits bring a test and a solver model is configured, it writes tests. Run it "
        "again with the same --out to continue where it stopped. Exit codes: 0 an edit was "
        "chosen, 3 none, 4 out of budget or time, 1 failed, 2 wrong usage.",
    )
    add_input_options(parser)
    parser.add_argument(
        "--patch", action="extend", nargs="+", default=[], type=Path, metavar="A.diff",
        help="edits of the last commit, as diffs by git or diff; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--branch", action="append", default=[], metavar="NAME",
        help="an edit: the changes of a branch since it left the default branch; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--test", action="append", default=[], type=Path, metavar="T.py",
        help="a script that exits with 0 if the issue is fixed and with 2 if not, or a test file; "
        "repeatable",
    )  # fmt: skip
    add_selection_options(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR",
        help="where to write patch.diff, the reports and the bundle",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return run_interruptible(run_command(args))


async def run_command(args: argparse.Namespace, settings: Settings | None = None) -> int:
    with nullcontext(args.out) if args.out else scratch_folder("select") as folder:
        return await run_and_report(_select(args, folder.resolve(), settings), args, stages=False)


async def _read_input(args: argparse.Namespace) -> SelectInput:
    repo = await find_repository(args.repo)
    with_overrides(Options(), options_from_args(args))
    issue, digest = read_issue(args.issue)
    patches = [ExternalEdit(str(path), _read_file(path, LARGEST + 1)) for path in args.patch]
    if not patches and not args.branch:
        raise WrongUsage("There is nothing to choose from: give --patch or --branch.")
    tests = [_read_test(path) for path in args.test]
    parts = [digest.encode(), *(edit.diff for edit in patches), *map(str.encode, args.branch)]
    parts += [test.text.encode() for test in tests]
    whole = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts))
    return SelectInput(
        repo, issue, whole.hexdigest(), tuple(patches), tuple(args.branch), tuple(tests)
    )


def _read_file(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}.") from None


def _read_test(path: Path) -> ExternalTest:
    data = _read_file(path, 256 * 1024 + 1)
    if len(data) > 256 * 1024:
        raise WrongUsage(f"{path} is larger than 256 KiB.")
    return ExternalTest(path.stem, data.decode("utf-8", "replace"))


async def _select(args: argparse.Namespace, out: Path, settings: Settings | None) -> int:
    task, settings = await _read_input(args), settings or Settings.from_env()
    if is_solver_set(settings):
        check_models(settings, ("solver_model",))
    store = await asyncio.to_thread(open_store, out, settings.data_dir)
    start = await load_or_create_start(task.repo, task.digest, out, store)
    checkout = await fetch_local(task.repo, start.base_commit, settings)
    codebase = await Codebase.open(checkout.git_dir, checkout.base)
    edits = [*task.patches, *await _read_branches(task, start.base_commit)]
    describe = partial(describe_commit, task.repo, start.base_commit)
    scope, overrides = store.scope_of(start), options_from_args(args)
    job = await build_job(start, scope, task.issue, codebase, overrides, describe)
    async with open_run(settings, SELECT_OWNER, job, store, out) as (runner, report_progress):
        chosen = await runner.select(
            job,
            edits,
            store,
            in_flight=InFlightWork(),
            on_progress=report_progress,
            tests=task.tests,
        )
    seconds = await CURRENT.get().stopwatch.read(store, chosen.environment)
    return await asyncio.to_thread(_write_results, args, out, task, start, chosen, seconds)


async def _read_branches(task: SelectInput, base: CommitSha) -> Sequence[ExternalEdit]:
    """The changes of each branch since it left the base commit's history."""
    if not task.branches:
        return []
    refs = await list_refs(task.repo)
    heads = [(name, find_commit(refs, name)) for name in task.branches]
    found = {name: head for name, head in heads if head is not None}
    if missing := [name for name, head in heads if head is None]:
        raise WrongUsage(f"{task.repo} has no branch {missing[0]}.")
    with scratch_folder("branches") as scratch:
        try:
            await fetch_history(task.repo, scratch, [base, *found.values()])
        except GitFailed as failure:
            raise WrongUsage(f"{task.repo} cannot be read: {failure.words}") from None
        edits: list[ExternalEdit] = []
        for name, head in found.items():
            if forked := await git(scratch, "merge-base", base, head, accept=(0, 1)):
                edits.append(await diff_commits(scratch, forked.decode().split()[0], head, name))
            else:
                why = "It shares no history with the last commit."
                edits.append(ExternalEdit(name, b"", why))
        return edits


def _write_results(
    args: argparse.Namespace,
    out: Path,
    task: SelectInput,
    start: Start,
    chosen: SelectOutcome,
    seconds: BusySeconds,
) -> int:
    report, text = _build_report(chosen, start)
    report = replace(report, seconds=seconds)
    data = report.model_dump_json(indent=1).encode() + b"\n"
    if args.out:
        files = {"report.json": data, "report.md": text.encode()}
        files |= health_file(chosen.environment)
        result = chosen.result
        taken = result.judged.chosen if isinstance(result, Choice) else None
        if taken is not None and report.outcome == "fix":
            files["patch.diff"] = taken.patch.diff.encode("utf-8", "surrogatepass")
        facts = {"base_commit": start.base_commit, "image": chosen.image, "outcome": report.outcome}
        write_results(out, files, facts=facts, issue=task.issue)
    result = data.decode() if args.json else "" if args.out else printable(text)
    where = out if args.out else None
    return conclude(report, chosen.accounts, out=where, result=result, done="Chosen")


def _build_report(chosen: SelectOutcome, start: Start) -> tuple[Report, str]:
    result = chosen.result
    if isinstance(result, Choice):
        choice = chosen.with_result(result)
        text = f"# Verdict\n\n{render_verdict(choice)}\n"
        return build_selection_report(choice, start.base_commit), text
    unsolvable = chosen.with_result(result)
    return build_report(unsolvable, start.base_commit), render_report(unsolvable)
