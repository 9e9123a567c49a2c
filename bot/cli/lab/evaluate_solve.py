"""`capuchin evaluate INSTANCES --trees DIR --solve OUT`: the whole pipeline, then graded."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.cli.display.base import print_progress
from bot.cli.evaluation.grade import GRADES
from bot.cli.evaluation.purse import Purse
from bot.cli.evaluation.solve_report import Solved, evaluate_solved
from bot.cli.evaluation.workplace import check_trees, digest
from bot.cli.local_run import WrongUsage, load_config, with_overrides, write_results
from bot.cli.report_files.run_files import build_run_files
from bot.comments.code_destinations import external_hosts
from bot.runner.models import check_models
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import GRADE_OWNER, build_engine
from bot.runner.types import Job
from bot.settings import Settings
from bot.storage.draining import InFlightWork
from bot.types import RunId
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed
from pipeline.codebase.text import agree, pluralize
from pipeline.concurrency import gather_bounded
from pipeline.evaluation.bundles import FinishedRun, read_run
from pipeline.evaluation.dataset import BadData
from pipeline.evaluation.grading import GradedInstance, Grader, InstanceGrade, read_graded
from pipeline.evaluation.recall import find_clone
from pipeline.evaluation.solving import SolvedInstance
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.options import Options
from pipeline.store import DirStore, ScopedStore, Store
from pipeline.types import Context, Issue, NoFix, Selection, replace
from sandbox.errors import EnvironmentFailed

RUNS: Final = "runs"
_OUT_OF_BUDGET: Final = "The budget is spent: start again with a larger --budget."


@dataclass(frozen=True)
class SolveTask:
    """The command line's request."""

    instances: Path
    trees: Path
    out: Path
    budget: float | None = None
    """US dollars for all instances together; None: each has its own ceiling alone."""
    samples: int | None = None


async def solve_instances(task: SolveTask, settings: Settings) -> Solved:
    """Run the pipeline on every instance, then grade each of its edits by the benchmark's tests.

    First the reference edit is graded: where the environment cannot tell, no model is asked. Runs
    are in `OUT/runs`, in the form of `capuchin fix --out`; a second call continues.

    Raises:
        BadData: the instances cannot be read, or the options are out of range.
        SettingsError, ModelError, SandboxUnavailable: call again to go on.
    """
    check_models(settings)
    rows = await asyncio.to_thread(read_graded, task.instances)
    await asyncio.to_thread(check_trees, task.trees)
    if task.budget is not None and not task.budget > 0:
        raise BadData("--budget must be more than 0.")
    spent = sum([(await _read_ledger(task.out / RUNS / row.instance_id)).dollars for row in rows])
    engine = build_engine(settings, owner=GRADE_OWNER)
    solving = _Solving(task, settings, PipelineRunner(settings, engine), Purse(task.budget, spent))
    try:
        found = await gather_bounded(settings.worker_runs, (solving.solve(row) for row in rows))
    finally:
        await engine.close()
    return await evaluate_solved(tuple(found), rows, task.instances, task.out / RUNS, settings)


class _Solving:
    """Solves and grades one instance after another with one engine."""

    def __init__(
        self, task: SolveTask, settings: Settings, runner: PipelineRunner, purse: Purse
    ) -> None:
        self._task = task
        self._settings = settings
        self._runner = runner
        self._purse = purse

    async def solve(self, row: GradedInstance) -> SolvedInstance:
        """The result for one instance, saved once it is final."""
        store = ScopedStore(DirStore(self._task.out / GRADES), row.instance_id)
        key = f"solved/{digest(row.model_dump_json())}"
        found = await store.load(key, SolvedInstance)
        if found is None:
            began = time.monotonic()
            found = await self._solve_new(row, store)
            found = replace(found, seconds=round(time.monotonic() - began, 1))
            if not found.unfinished:
                await store.save(key, found)
            limit = self._settings.sandbox_images_mb * 1_000_000
            await self._runner.engine.collect(max_bytes=limit)
        print_progress(f"{row.instance_id}: {_sentence(found)}")
        return found

    async def _solve_new(self, row: GradedInstance, store: Store) -> SolvedInstance:
        unknown = SolvedInstance(instance_id=row.instance_id)
        try:
            job = await self._build_job(row)
            grades = _Grades(self, row, job, store)
            reference = await grades.grade([row.patch])
            if why := reference[row.patch].cannot_tell:
                return replace(unknown, cannot_tell=why)
            return await self._run(row, job, grades)
        except (BadData, WrongUsage) as error:
            return replace(unknown, cannot_tell=str(error))
        except EnvironmentFailed as error:
            return replace(unknown, cannot_tell=f"No environment: {error}")

    async def _build_job(self, row: GradedInstance) -> Job:
        """Raises BadData, WrongUsage: the commit, or its settings file, cannot be read."""
        trees = self._task.trees
        clone = await asyncio.to_thread(find_clone, trees, row.repo)
        if clone is None:
            raise BadData(f"{trees} holds no clone of {row.repo}.")
        try:
            codebase = await Codebase.open(clone, row.base_commit)
        except GitFailed:
            raise BadData(f"{clone} has no commit {row.base_commit}.") from None
        config = await load_config(codebase)
        overrides = {"samples": self._task.samples, "all_revisions": True}
        title, _, body = row.problem_statement.strip().partition("\n")
        return Job(
            run_id=RunId(f"solve-{digest(row.instance_id)}"),
            issue=Issue(repository=row.repo, title=title, body=body.strip()),
            codebase=codebase,
            options=with_overrides(config.options(), overrides),
            setup=config.setup,
            dockerfile=config.dockerfile,
            python=config.python,
        )

    async def _run(self, row: GradedInstance, job: Job, grades: _Grades) -> SolvedInstance:
        folder = self._task.out / RUNS / row.instance_id
        unknown = SolvedInstance(instance_id=row.instance_id)
        before = (await _read_ledger(folder)).dollars
        full = job.options.dollars
        async with self._purse.take(full - before) as grant:
            if grant.dollars <= 0:
                accounts = (await _read_ledger(folder)).accounts
                return replace(unknown, unfinished=_OUT_OF_BUDGET, accounts=accounts)
            ceiling = before + grant.dollars
            job = dataclasses.replace(job, options=replace(job.options, dollars=ceiling))
            outcome = await self._runner.solve(
                job,
                self.open_store(row),
                in_flight=InFlightWork(),
                on_progress=lambda sentence: print_progress(f"{row.instance_id}: {sentence}"),
            )
            grant.spend((await _read_ledger(folder)).dollars - before)
        result = outcome.result
        found = replace(unknown, accounts=outcome.accounts)
        if isinstance(result, NoFix) and result.reason == "out of budget" and ceiling < full:
            return replace(found, unfinished=_OUT_OF_BUDGET)
        base = job.codebase.commit
        hosts = external_hosts(outcome.sent_to, self._settings, by_app=False)
        report, files = build_run_files(outcome, base, hosts)
        facts = {"base_commit": base, "image": outcome.image, "outcome": report.outcome}
        await asyncio.to_thread(write_results, folder, files, facts=facts, issue=job.issue)
        run = await read_run(folder)
        chosen = result.candidate.patch.diff if isinstance(result, Selection) else ""
        told = await grades.grade([chosen, *_list_edits(run)])
        if why := next((grade.cannot_tell for grade in told.values() if grade.cannot_tell), ""):
            return replace(found, cannot_tell=why)
        best = outcome.environment.best if outcome.environment else None
        return replace(
            found,
            outcome=report.outcome,
            chosen=chosen,
            resolved=bool(chosen) and told[chosen].resolved,
            note=told[chosen].note if chosen else f"No edit was chosen: {report.reason}.",
            labels=_label(run, told),
            environment=best.line() if best else "",
            **_describe_context(outcome.context),
        )

    def open_store(self, row: GradedInstance) -> Store:
        """The store of the instance's run. The benchmark's tests must never be in it."""
        return DirStore(self._task.out / RUNS / row.instance_id / "run")

    @property
    def runner(self) -> PipelineRunner:
        return self._runner


class _Grades:
    """Grades edits of one instance in the environment of its run."""

    def __init__(self, solving: _Solving, row: GradedInstance, job: Job, store: Store) -> None:
        self._solving = solving
        self._row = row
        self._job = job
        self._store = store

    async def grade(self, diffs: Sequence[str]) -> dict[str, InstanceGrade]:
        """The verdict over each of the edits that is not empty. Raises as `Grader.grade`."""
        wanted = [diff for diff in dict.fromkeys(diffs) if diff.strip()]
        found: dict[str, InstanceGrade] = {}
        for diff in wanted:
            saved = await self._store.load(self._key(diff), InstanceGrade)
            if saved:
                found[diff] = saved
        if len(found) == len(wanted):
            return found
        row, job = self._row, self._job

        def report(sentence: str) -> None:
            print_progress(f"{row.instance_id}: {sentence}")

        run_store = self._solving.open_store(row)
        async with self._solving.runner.open_environment(job, run_store, report) as environment:
            tests = ScopedStore(self._store, environment.image)
            grader = Grader(row, job.codebase, environment.sandbox, tests, Options())
            for diff in wanted:
                if diff not in found:
                    found[diff] = await grader.grade(diff)
                    await self._store.save(self._key(diff), found[diff])
        return found

    def _key(self, diff: str) -> str:
        return f"verdict/{digest(self._row.model_dump_json(), diff)}"


def _list_edits(run: FinishedRun | None) -> list[str]:
    revisions = run.revisions.values() if run else ()
    return [patch.diff for patches in revisions for patch in patches]


def _label(
    run: FinishedRun | None, told: Mapping[str, InstanceGrade]
) -> dict[int, tuple[int, ...]]:
    """The samples with a resolving revision, and those revisions."""
    labels = {
        sample: tuple(
            at for at, patch in enumerate(patches)
            if patch.diff in told and told[patch.diff].resolved
        )
        for sample, patches in (run.revisions.items() if run else ())
    }  # fmt: skip
    return {sample: right for sample, right in labels.items() if right}


def _describe_context(context: Context | None) -> dict[str, object]:
    if context is None:
        return {}
    return {
        "shown": tuple((file.path, file.tokens) for file in context.files),
        "read_tokens": context.findings.read_tokens if context.findings else 0,
    }


async def _read_ledger(folder: Path) -> Ledger:
    return await DirStore(folder / "run").load(LEDGER_KEY, Ledger) or Ledger()


def _sentence(found: SolvedInstance) -> str:
    if found.cannot_tell:
        return f"cannot tell. {found.cannot_tell}"
    if found.unfinished:
        return f"not finished. {found.unfinished}"
    word = "resolved" if found.resolved else "not resolved"
    count = len(found.labels)
    right = f"{pluralize(count, 'sample')} {agree(count, 'is', 'are')} right"
    text = f"{word} ({right}, ${found.dollars:.2f}, {found.seconds:.0f} s). {found.note}"
    return text.rstrip()
