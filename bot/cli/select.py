"""`capuchin select`: chooses among diffs and branches from anywhere."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bot.cli import Subparsers
from bot.cli.local_run import (
    LocalRequest,
    add_run_options,
    build_job,
    finish,
    open_run,
    read_input,
    run_and_report,
    run_interruptible,
)
from bot.cli.out_folder import open_store
from bot.cli.run_input import WrongUsage, fetch_history, find_commit, list_refs
from bot.runner.models import check_models, is_solver_set
from bot.runner.sandbox import SELECT_OWNER
from bot.settings import Settings
from pipeline.codebase.git import GitFailed, git
from pipeline.data.types import CommitSha
from pipeline.edits.external import LARGEST, ExternalEdit, diff_commits
from pipeline.select import ExternalTest
from sandbox.scratch import scratch_folder


@dataclass(frozen=True, kw_only=True)
class SelectRequest(LocalRequest):
    patch: Sequence[Path]
    branch: Sequence[str]
    test: Sequence[Path]


def register(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "select",
        description="Runs every test on every edit and names the best edit, or none. If neither "
        "you nor the edits bring a test and a solver model is configured, it writes tests. Run it "
        "again with the same --out to continue where it stopped. Exit codes: 0 an edit was "
        "chosen, 3 none, 4 out of budget or time, 1 failed, 2 wrong usage.",
    )
    add_run_options(parser)
    parser.add_argument(
        "--patch", action="extend", nargs="+", default=[], type=Path, metavar="A.diff",
        help="edits of the last commit, as diffs by git or diff; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--branch", action="append", default=[], metavar="NAME",
        help="an edit: the changes of a branch since it left the default branch; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--test", action="append", default=[], type=Path, metavar="SCRIPT",
        help="a script (Python, or for sh) that exits with 0 if the issue is fixed and with 2 if "
        "not, or a test file; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="DIR",
        help="where to write patch.diff, the reports and the bundle",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return run_interruptible(run_command(args))


async def run_command(args: argparse.Namespace, settings: Settings | None = None) -> int:
    request = SelectRequest.read(args)
    return await run_and_report(partial(_select, request, settings), request, stages=False)


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


async def _select(request: SelectRequest, settings: Settings | None, out: Path) -> int:
    edits = [ExternalEdit(str(path), _read_file(path, LARGEST + 1)) for path in request.patch]
    if not edits and not request.branch:
        raise WrongUsage("There is nothing to choose from: give --patch or --branch.")
    tests = [_read_test(path) for path in request.test]
    settings = settings or Settings.from_env()
    if is_solver_set(settings):
        check_models(settings, ("solver_model",))
    store = await asyncio.to_thread(open_store, out, settings.data_dir)
    given = (*(edit.diff for edit in edits), *map(str.encode, request.branch))
    given += tuple(test.text.encode() for test in tests)
    task = await read_input(request, settings, out, store, *given)
    repo = Path(task.start.repository)
    edits += await _read_branches(repo, request.branch, task.start.base_commit)
    job = await build_job(task, request, store.scope_of(task.start))
    async with open_run(settings, SELECT_OWNER, job, store, out) as (runner, report_progress):
        chosen = await runner.select(job, edits, store, on_progress=report_progress, tests=tests)
    return await finish(request, task, chosen, out, store, done="Chosen")


async def _read_branches(
    repo: Path, branches: Sequence[str], base: CommitSha
) -> Sequence[ExternalEdit]:
    """The changes of each branch since it left the base commit's history."""
    if not branches:
        return []
    refs = await list_refs(repo)
    heads = [(name, find_commit(refs, name)) for name in branches]
    found = {name: head for name, head in heads if head is not None}
    if missing := [name for name, head in heads if head is None]:
        raise WrongUsage(f"{repo} has no branch {missing[0]}.")
    with scratch_folder("branches") as scratch:
        try:
            await fetch_history(repo, scratch, [base, *found.values()])
        except GitFailed as failure:
            raise WrongUsage(f"{repo} cannot be read: {failure.words}") from None
        edits: list[ExternalEdit] = []
        for name, head in found.items():
            if forked := await git(scratch, "merge-base", base, head, accept=(0, 1)):
                edits.append(await diff_commits(scratch, forked.decode().split()[0], head, name))
            else:
                why = "It shares no history with the last commit."
                edits.append(ExternalEdit(name, b"", why))
        return edits
