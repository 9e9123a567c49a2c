"""`capuchin learn filter`, and the executions of its checks."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from pathlib import Path

from bot.cli.display.base import print_progress
from bot.cli.terminal import printable
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import GRADE_OWNER, build_engine
from bot.runner.types import Job
from bot.settings import Settings
from bot.types import RunId
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed
from pipeline.codebase.text import pluralize
from pipeline.concurrency import gather_bounded
from pipeline.evaluation.dataset import BadData
from pipeline.evaluation.recall import find_clone
from pipeline.learning.execute import execute_checks
from pipeline.learning.filtering import filter_data, render_filter_report, write_filtered
from pipeline.learning.records import Attempt, LearningData, SolvedIssue, read_data
from pipeline.options import Options
from pipeline.store import DirStore, ScopedStore
from sandbox.errors import EnvironmentFailed

_MARKDOWN = "report.md"


def run_filter(args: argparse.Namespace) -> None:
    """Filter DATA into --out, and print the report.

    Raises:
        BadData: DATA cannot be read or is empty, or training and test share something.
        SandboxError, OSError: call again to go on.
    """
    data = read_data(args.data)
    if not data.issues:
        raise BadData(f"{args.data} holds no issue: run `capuchin learn collect` first.")
    easy = _read_easy(args.easy) if args.easy else frozenset[str]()
    if args.trees:
        data = asyncio.run(_execute_all(data, args.trees, args.out, Settings.from_env()))
    found, report = filter_data(data, easy=easy, until=args.until)
    if report.leaks:
        raise BadData(
            f"Nothing was written: training and test share {pluralize(report.leaks, 'thing')}."
        )
    write_filtered(args.out, found, report)
    text = render_filter_report(report)
    (args.out / _MARKDOWN).write_text(text, encoding="utf-8")
    sys.stdout.write(printable(text))


def _read_easy(path: Path) -> frozenset[str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BadData(f"{path} is no JSON list of issues.") from None
    if not isinstance(found, list):
        raise BadData(f"{path} is no JSON list of issues.")
    return frozenset(map(str, found))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


async def _execute_all(
    data: LearningData, trees: Path, out: Path, settings: Settings
) -> LearningData:
    """`data` with what executions tell, several issues at a time; results are saved in `out`."""
    known = {one.id: one for one in data.issues}
    by_issue: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in data.attempts:
        if attempt.issue in known and (attempt.script or attempt.resolved is None):
            by_issue[attempt.issue].append(attempt)
    store = DirStore(out / "executions")
    engine = build_engine(settings, owner=GRADE_OWNER)
    runner = PipelineRunner(settings, engine)

    async def execute(name: str) -> list[Attempt]:
        found = await _execute_issue(known[name], by_issue[name], trees, store, runner)
        await engine.collect(max_bytes=settings.sandbox_images_mb * 1_000_000)
        return found

    try:
        found = await gather_bounded(settings.sandbox_parallel, map(execute, by_issue))
    finally:
        await engine.close()
    return data.merge(LearningData((), tuple(one for some in found for one in some)))


async def _execute_issue(
    issue: SolvedIssue,
    attempts: list[Attempt],
    trees: Path,
    store: DirStore,
    runner: PipelineRunner,
) -> list[Attempt]:
    clone = await asyncio.to_thread(find_clone, trees, issue.repository)
    try:
        codebase = await Codebase.open(clone, issue.base_commit) if clone else None  # pyright: ignore[reportArgumentType]
    except GitFailed:
        codebase = None
    if codebase is None:
        print_progress(f"{issue.id}: cannot tell. {trees} has no clone with its base commit.")
        return attempts
    options = Options()
    job = Job(
        run_id=RunId(f"learn-{issue.id}"), issue=issue.issue, codebase=codebase, options=options
    )
    own = ScopedStore(store, issue.id)
    try:
        async with runner.open_environment(
            job, own, lambda sentence: print_progress(f"{issue.id}: {sentence}")
        ) as environment:
            checked: list[Attempt] = []
            for attempt in attempts:
                found = await execute_checks(
                    issue,
                    attempt,
                    codebase=codebase,
                    sandbox=environment.sandbox,
                    store=ScopedStore(own, environment.image),
                    options=options,
                )
                checked.append(found)
                of = pluralize(len(attempts), "attempt")
                print_progress(f"{issue.id}: {len(checked)} of {of} checked.")
            return checked
    except EnvironmentFailed as error:
        print_progress(f"{issue.id}: cannot tell. No environment: {error}")
        return attempts
