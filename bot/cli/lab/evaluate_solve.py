"""`evaluate --solve`: the whole pipeline on instances, with its tables."""

import argparse
import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from bot.cli.display import print_event, print_progress
from bot.cli.lab.evaluate_grade import GRADES, check_trees, open_runner, write_output
from bot.cli.local_run import (
    add_set_option,
    build_run_files,
    load_config,
    with_overrides,
    write_results,
)
from bot.cli.run_input import WrongUsage
from bot.comments.run_details import external_hosts
from bot.data.job import Job
from bot.data.run import RunId
from bot.runner.models import check_models
from bot.runner.runner import PipelineRunner
from bot.safe_text import printable
from bot.settings import Settings
from pipeline.concurrency import gather_bounded
from pipeline.data.options import Options, SelectionMethod
from pipeline.data.progress import OnProgress
from pipeline.data.types import Account, Issue, NoFix, Patch, Selection
from pipeline.lab.bundles import FinishedRun, read_run
from pipeline.lab.dataset import BadData, LocatedInstance
from pipeline.lab.grading import GradedInstance, Grader, InstanceGrade
from pipeline.lab.lab_report import render_markdown, to_json, write_report
from pipeline.lab.predictions import Evaluation
from pipeline.lab.recall import open_base, scope_of_clone
from pipeline.lab.runs import evaluate_runs
from pipeline.lab.shards import Shard, open_results, parse_shard
from pipeline.lab.solving import (
    CostLine,
    SolvedInstance,
    SolveReport,
    build_solve_report,
    cost_table,
    list_graded,
    render_summary,
)
from pipeline.models.base import Price
from pipeline.models.metering import LEDGER_KEY, Ledger
from pipeline.models.spec import look_up, parse_specs
from pipeline.replay import NotInBundle, load_question
from pipeline.selection.judge import Judge
from pipeline.selection.verdict import Verdict
from pipeline.store import DirStore, ScopedStore, Store, digest
from prompts.text import agree, pluralize
from sandbox.errors import EnvironmentFailed
from sandbox.frozen import replace


@dataclass
class Grant:
    """Money for one run. Set `spent` to its cost: the rest goes back."""

    dollars: float
    spent: float


class BudgetPool:
    """Never grants more than it holds, to any number of concurrent runs."""

    def __init__(self, dollars: float | None, spent: float = 0.0) -> None:
        """`dollars`: the whole budget; None: no limit. `spent`: by earlier calls."""
        self._left = None if dollars is None else dollars - spent
        self._granted = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def take(self, dollars: float) -> AsyncGenerator[Grant]:
        """Grant `dollars`, or what is left once no other run can return money."""
        async with self._changed:
            while self._left is not None and self._left < dollars and self._granted:
                await self._changed.wait()
            granted = dollars if self._left is None else max(0.0, min(dollars, self._left))
            self._settle(-granted, 1)
        grant = Grant(granted, spent=granted)
        try:
            yield grant
        finally:
            async with self._changed:
                self._settle(granted - grant.spent, -1)
                self._changed.notify_all()

    def _settle(self, dollars: float, runs: int) -> None:
        self._granted += runs
        if self._left is not None:
            self._left += dollars


@dataclass(frozen=True)
class Solved:
    """The results of the command."""

    report: SolveReport
    found: tuple[SolvedInstance, ...]
    costs: tuple[CostLine, ...]
    evaluation: Evaluation | None
    """Of the finished and graded runs; None without any."""


async def evaluate_solved(
    found: tuple[SolvedInstance, ...],
    rows: Sequence[GradedInstance],
    task: "SolveTask",
    settings: Settings,
) -> Solved:
    """Evaluate the finished runs of `task`, and write their labels beside them.

    Raises:
        BadData: a run's bundle is broken.
        OSError: the labels cannot be written.
    """
    references = {row.instance_id: row.patch for row in rows if row.patch}
    graded = list_graded(found)
    runs = [await read_run(task.find_folder(one.instance_id)) for one in graded]
    labels = {one.instance_id: {s: list(r) for s, r in one.labels.items()} for one in graded}
    evaluation = None
    if graded:
        evaluation = await asyncio.to_thread(
            evaluate_runs,
            [run for run in runs if run],
            labels,
            repositories={row.instance_id: row.repo for row in rows},
            references=references,
        )
        place = task.shard.place(task.out) if task.shard.is_part else task.out / "runs"
        place.mkdir(parents=True, exist_ok=True)
        (place / "labels.json").write_text(json.dumps(labels, indent=1) + "\n", "utf-8")
    accounts = [account for one in graded for account in one.accounts]
    return Solved(
        report=build_solve_report(found),
        found=found,
        costs=tuple(cost_table(accounts, _read_prices(accounts, settings))),
        evaluation=evaluation,
    )


def _read_prices(accounts: Sequence[Account], settings: Settings) -> dict[str, Price]:
    """The list prices of the accounts' models, by the names that the services gave."""
    table = settings.read_prices()
    texts = filter(None, (settings.solver_model, settings.scout_model))
    specs = [spec for text in texts for spec in parse_specs(text)]
    prices: dict[str, Price] = {}
    for name in {account.model for account in accounts}:
        spec = next((spec for spec in specs if name.startswith(spec.name)), specs[0])
        prices[name] = look_up(replace(spec, name=name), table).profile.price
    return prices


def write_solved(solved: Solved, out: Path, *, as_json: bool) -> None:
    """Write the tables, the figures and the chosen edits into `out`, and print the tables.

    Raises:
        OSError: a file cannot be written.
    """
    report = solved.report
    text = render_summary(report, solved.costs, len(list_graded(solved.found)))
    if solved.evaluation:
        write_report(out, solved.evaluation.report, solved.evaluation.chosen)
        text += "\n" + render_markdown(solved.evaluation.report)
    document: dict[str, object] = report.model_dump(mode="json")
    document["costs"] = [
        line._asdict() | {"usage": line.usage.model_dump()} for line in solved.costs
    ]
    document["selection"] = to_json(solved.evaluation.report) if solved.evaluation else None
    printed = json.dumps(document, indent=1) + "\n"
    rows = [
        {"instance_id": o.instance_id, "model_name_or_path": "capuchin", "model_patch": o.chosen}
        for o in list_graded(solved.found)
    ]
    files = {
        "report.md": text,
        "solve.json": printed,
        "predictions.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
    }
    write_output(out, files, see="report.md", document=printed, text=text, as_json=as_json)
    if not as_json:
        sys.stdout.write(printable(text))


@dataclass(frozen=True)
class SolveTask:
    """The command line's request."""

    trees: Path
    out: Path
    budget: float | None = None
    """US dollars for all instances together; None: only each one's own limit applies."""
    set_: Mapping[str, object] = field(default_factory=dict[str, object])
    """The pipeline's options by name; the others are the defaults."""
    selections: Sequence[SelectionMethod] = ()
    """Each run chooses by the first of these, unless `set_` says otherwise, then by the others."""
    shard: Shard = field(default_factory=Shard)

    def build_options(self, *, graded: bool) -> Options:
        """The options of every run. Raises WrongUsage: one is unknown, or out of range."""
        given = {"all_revisions": graded, **self.set_}
        if self.selections:
            given = {"selection": self.selections[0], **given}
        return with_overrides(Options(), given)

    def find_folder(self, name: str) -> Path:
        """The folder of an instance's run, in the form of `capuchin fix --out`."""
        return self.out / "runs" / name

    async def load(self, row: LocatedInstance) -> SolvedInstance | None:
        """What is known of an instance that is done."""
        return await open_results(self.out, row.instance_id).load(self._key(row), SolvedInstance)

    async def save(self, row: LocatedInstance, found: SolvedInstance) -> None:
        await open_results(self.out, row.instance_id).save(self._key(row), found)

    def _key(self, row: LocatedInstance) -> str:
        kind = "solved" if isinstance(row, GradedInstance) else "sampled"
        return f"{kind}-{digest(row.model_dump_json(), *self.selections)}"


RowT = TypeVar("RowT", bound=LocatedInstance)


def add_run_options(parser: argparse.ArgumentParser, where: str = "") -> None:
    """Add the options of `SolveTask` that every command has; `where` begins their help."""
    parser.add_argument(
        "--budget", type=float, metavar="DOLLARS",
        help=f"{where}spending limit for all instances together, at list prices; a shard has its "
        "instances' part of it",
    )  # fmt: skip
    add_set_option(
        parser, f"{where}an option of the pipeline, such as samples=4 or strategy=codemonkeys"
    )
    add_shard_option(parser, where)


def add_shard_option(parser: argparse.ArgumentParser, where: str = "") -> None:
    """Add `--shard`."""
    parser.add_argument(
        "--shard", type=parse_shard, default=Shard(), metavar="K/N",
        help=f"{where}work on the K-th of N parts of the instances, so that N machines share them",
    )  # fmt: skip


async def solve_instances(
    task: SolveTask, rows: Sequence[RowT], settings: Settings
) -> tuple[SolvedInstance, ...]:
    """Run the pipeline on every instance, then grade each of its edits by the benchmark's tests
    where there are any.

    The reference edit is graded first: if the environment cannot tell, no model is called. Runs are
    in `OUT/runs`, in the form of `capuchin fix --out`; a second call continues.

    Raises:
        BadData: the clones cannot be read.
        WrongUsage: an option is unknown, or out of range.
        SettingsError, ModelError, SandboxUnavailable: call again to continue.
    """
    task.build_options(graded=False)
    check_models(settings)
    await asyncio.to_thread(check_trees, task.trees)
    if task.budget is not None and not task.budget > 0:
        raise BadData("--budget must be more than 0.")
    own = [row for row in rows if task.shard.holds(row.instance_id)]
    budget = task.budget and task.budget * len(own) / len(rows)
    spent = sum([(await _read_ledger(task.find_folder(row.instance_id))).dollars for row in own])
    async with open_runner(settings) as runner:
        solving = _Solving(task, settings, runner, BudgetPool(budget, spent))
        found = await gather_bounded(settings.worker_runs, map(solving.solve, own))
    return tuple(found)


@dataclass(frozen=True)
class _Solving:
    """Solves and grades instances with one engine."""

    task: SolveTask
    settings: Settings
    runner: PipelineRunner
    purse: BudgetPool

    async def solve(self, row: LocatedInstance) -> SolvedInstance:
        """The result for one instance, saved once it is final."""
        found = await self.task.load(row)
        if found is None:
            began = time.monotonic()
            found = await self._solve_new(row)
            found = replace(found, seconds=round(time.monotonic() - began, 1))
            if not found.unfinished:
                await self.task.save(row, found)
            limit = self.settings.sandbox_images_mb * 1_000_000
            await self.runner.engine.collect(max_bytes=limit)
        graded = isinstance(row, GradedInstance)
        print_progress(f"{row.instance_id}: {_sentence(found, graded=graded)}")
        return found

    async def _solve_new(self, row: LocatedInstance) -> SolvedInstance:
        unknown = SolvedInstance(instance_id=row.instance_id)
        try:
            job = await self._build_job(row)
            if not isinstance(row, GradedInstance):
                return (await self._run(row, job))[0]
            grades = _Grades(self, row, job)
            reference = await grades.grade([row.patch])
            if why := reference[row.patch].cannot_tell:
                return replace(unknown, cannot_tell=why)
            return await self._label(*await self._run(row, job), grades)
        except (BadData, WrongUsage) as error:
            return replace(unknown, cannot_tell=str(error))
        except EnvironmentFailed as error:
            return replace(unknown, cannot_tell=f"No environment: {error}")

    async def _build_job(self, row: LocatedInstance) -> Job:
        """Raises BadData, WrongUsage: the commit, or its settings file, cannot be read."""
        codebase = await open_base(self.task.trees, row.repo, row.base_commit)
        config = await load_config(codebase)
        title, _, body = row.problem_statement.strip().partition("\n")
        issue = Issue(repository=row.repo, title=title, body=body.strip())
        return Job(
            run_id=RunId(f"solve-{digest(row.instance_id)[:16]}"),
            issue=issue,
            codebase=await asyncio.to_thread(config.aim, codebase, issue),
            # An instance's commit says how it installs, not how it is solved.
            options=self.task.build_options(graded=isinstance(row, GradedInstance)),
            scope=scope_of_clone(self.task.trees, row.repo),
            environment=config.environment(),
            image=row.image,
        )

    async def _run(
        self, row: LocatedInstance, job: Job
    ) -> tuple[SolvedInstance, FinishedRun | None]:
        """The result before any grade, and the run's edits; None if it has not ended."""
        folder = self.task.find_folder(row.instance_id)
        unknown = SolvedInstance(instance_id=row.instance_id)
        before = (await _read_ledger(folder)).dollars
        full = job.options.dollars
        spent = "The budget is spent: run it again with a larger --budget."
        async with self.purse.take(full - before) as grant:
            if grant.dollars <= 0:
                accounts = (await _read_ledger(folder)).accounts
                return replace(unknown, unfinished=spent, accounts=accounts), None
            ceiling = before + grant.dollars
            job = dataclasses.replace(job, options=replace(job.options, dollars=ceiling))
            store, say = self.open_store(row), partial(print_event, of=row.instance_id)
            outcome = await self.runner.solve(job, store, on_progress=say)
            for method in self.task.selections:
                await self._choose_again(job, method, store, say)
            ledger = await _read_ledger(folder)
            grant.spent = ledger.dollars - before
        result = outcome.result
        found = replace(unknown, accounts=ledger.accounts)
        if isinstance(result, NoFix) and result.reason == "out of budget" and ceiling < full:
            return replace(found, unfinished=spent), None
        base = job.codebase.commit
        hosts = external_hosts(outcome.sent_to, self.settings, by_app=False)
        report, files = build_run_files(outcome, base, hosts)
        facts = {"base_commit": base, "image": outcome.image, "outcome": report.outcome}
        await asyncio.to_thread(write_results, folder, files, facts=facts, issue=job.issue)
        chosen = result.candidate.patch.diff if isinstance(result, Selection) else ""
        best = outcome.environment.best if outcome.environment else None
        found = replace(
            found,
            outcome=report.outcome,
            chosen=chosen,
            note="" if chosen else f"No edit was chosen: {report.reason}.",
            environment=best.line() if best else "",
        )
        return found, await read_run(folder)

    async def _label(
        self, found: SolvedInstance, run: FinishedRun | None, grades: "_Grades"
    ) -> SolvedInstance:
        """`found` with the verdicts on all edits of its run."""
        if found.unfinished:
            return found
        revisions: Mapping[int, Sequence[Patch]] = run.revisions if run else {}
        edits = [found.chosen, *(p.diff for some in revisions.values() for p in some)]
        told = await grades.grade(edits)
        if why := next((grade.cannot_tell for grade in told.values() if grade.cannot_tell), ""):
            return replace(found, cannot_tell=why)
        labels = {
            sample: tuple(
                at for at, patch in enumerate(patches)
                if patch.diff in told and told[patch.diff].resolved
            )
            for sample, patches in revisions.items()
        }  # fmt: skip
        verdict = told.get(found.chosen)
        return replace(
            found,
            resolved=verdict is not None and verdict.resolved,
            note=verdict.note if verdict else found.note,
            labels={sample: right for sample, right in labels.items() if right},
        )

    async def _choose_again(
        self, job: Job, method: SelectionMethod, store: Store, on_progress: OnProgress
    ) -> None:
        """Choose among a finished run's edits by `method` too, if there was anything to choose."""
        try:
            question, _ = await load_question(store)
        except NotInBundle:
            return
        if await store.load(f"verdict/{method}", Verdict):
            return
        job = dataclasses.replace(job, options=replace(job.options, selection=method))
        opening = self.runner.open_selection(job, store, on_progress)
        async with opening as space:
            judge = Judge(space.workspace, model=space.models.solver, reward=space.models.orm)
            await judge.judge(
                question.issue,
                question.candidates,
                tests=question.tests,
                reproduced=question.reproduced,
                checklist=question.checklist,
            )

    def open_store(self, row: LocatedInstance) -> Store:
        """The store of the instance's run. It must never contain the benchmark's tests."""
        return DirStore(self.task.find_folder(row.instance_id) / "run")


@dataclass(frozen=True)
class _Grades:
    """Grades edits of one instance in the environment of its run."""

    solving: _Solving
    row: GradedInstance
    job: Job

    @property
    def store(self) -> Store:
        return ScopedStore(DirStore(self.solving.task.out / GRADES), self.row.instance_id)

    async def grade(self, diffs: Sequence[str]) -> dict[str, InstanceGrade]:
        """The verdict on each edit that is not empty. Raises as `Grader.grade`."""
        wanted = [diff for diff in dict.fromkeys(diffs) if diff.strip()]
        found: dict[str, InstanceGrade] = {}
        for diff in wanted:
            saved = await self.store.load(self._key(diff), InstanceGrade)
            if saved:
                found[diff] = saved
        if len(found) == len(wanted):
            return found
        row, job = self.row, self.job
        report = partial(print_event, of=row.instance_id)
        run_store = self.solving.open_store(row)
        async with self.solving.runner.open_environment(job, run_store, report) as environment:
            tests = ScopedStore(self.store, environment.image)
            grader = Grader(row, job.codebase, environment.sandbox, tests)
            for diff in wanted:
                if diff not in found:
                    found[diff] = await grader.grade(diff)
                    await self.store.save(self._key(diff), found[diff])
        return found

    def _key(self, diff: str) -> str:
        return f"verdict/{digest(self.row.model_dump_json(), diff)}"


async def _read_ledger(folder: Path) -> Ledger:
    return await DirStore(folder / "run").load(LEDGER_KEY, Ledger) or Ledger()


def _sentence(found: SolvedInstance, *, graded: bool) -> str:
    if found.cannot_tell:
        return f"cannot tell. {found.cannot_tell}"
    if found.unfinished:
        return f"not finished. {found.unfinished}"
    if not graded:
        return (
            f"{found.outcome} (${found.dollars:.2f}, {found.seconds:.0f} s). {found.note}".rstrip()
        )
    word = "resolved" if found.resolved else "not resolved"
    count = len(found.labels)
    right = f"{pluralize(count, 'sample')} {agree(count, 'is', 'are')} right"
    text = f"{word} ({right}, ${found.dollars:.2f}, {found.seconds:.0f} s). {found.note}"
    return text.rstrip()
