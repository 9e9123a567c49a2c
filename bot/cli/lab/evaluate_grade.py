"""`evaluate --grade`: which edits are right, in environments of our own."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import Field

from bot.cli.display import print_event, print_progress
from bot.data.job import Job
from bot.data.run import RunId
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import GRADE_OWNER, build_engine
from bot.safe_text import code, printable, prose
from bot.settings import Settings
from pipeline.codebase.commit import Codebase
from pipeline.concurrency import gather_bounded
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.lab.dataset import (
    BadData,
    Dataset,
    LocatedInstance,
    read_predictions,
    read_rows,
)
from pipeline.lab.grading import (
    DrawnEdit,
    ExecutedEdit,
    GradedInstance,
    Grader,
    GradeReport,
    InstanceGrade,
    build_grade_report,
    choose_edits,
    draw_edits,
)
from pipeline.lab.recall import CannotMeasure, open_base, scope_of_clone
from pipeline.lab.render import table
from pipeline.regression.near_tests import NearbyTests
from pipeline.resources import Workspace
from pipeline.selection.scoring.canonical import read_base
from pipeline.store import DirStore, ScopedStore, Store, digest
from prompts.text import pluralize
from sandbox.base import Sandbox
from sandbox.errors import EnvironmentFailed, PatchRejected
from sandbox.frozen import Frozen, replace
from sandbox.scratch import scratch_folder


@dataclass(frozen=True)
class Workplace:
    """The open environment of one instance's base commit."""

    codebase: Codebase
    sandbox: Sandbox
    store: Store
    """For results that are true of this environment only."""
    environment: str
    """How it was made, and its health. Untrusted."""

    def build_grader(self, row: GradedInstance) -> Grader:
        return Grader(row, self.codebase, self.sandbox, self.store)


class Workplaces:
    """Makes the environments of instances, one after another."""

    def __init__(self, trees: Path, settings: Settings, runner: PipelineRunner) -> None:
        self.trees = trees
        self._runner = runner
        self._images_bytes = settings.sandbox_images_mb * 1_000_000

    @asynccontextmanager
    async def open(self, row: LocatedInstance, store: Store) -> AsyncGenerator[Workplace]:
        """The environment of `row`; its results are saved in `store`.

        Raises:
            CannotMeasure: the clone or commit is missing, or nothing could be installed.
            SandboxUnavailable: call again to continue.
        """
        codebase = await open_base(self.trees, row.repo, row.base_commit)
        job = Job(
            run_id=RunId(f"grade-{digest(row.instance_id)[:16]}"),
            issue=Issue(repository=row.repo, title="", body=row.problem_statement),
            codebase=codebase,
            options=Options(),
            scope=scope_of_clone(self.trees, row.repo),
            image=row.image,
        )
        report = partial(print_event, of=row.instance_id)
        try:
            async with self._runner.open_environment(job, store, report) as environment:
                best = environment.record.best
                own = ScopedStore(store, environment.image)
                line = best.line() if best else ""
                yield Workplace(codebase, environment.sandbox, own, line)
        except EnvironmentFailed as error:
            raise CannotMeasure(f"No environment: {error}") from error

    async def evict_images(self) -> None:
        """Keep the images within the limit of the settings."""
        await self._runner.engine.collect(max_bytes=self._images_bytes)


@asynccontextmanager
async def open_runner(settings: Settings) -> AsyncGenerator[PipelineRunner]:
    """A runner with an engine of its own."""
    engine = build_engine(settings, owner=GRADE_OWNER)
    try:
        yield PipelineRunner(settings, engine)
    finally:
        await engine.close()


@asynccontextmanager
async def _open_workplaces(
    trees: Path, out: Path | None, settings: Settings
) -> AsyncGenerator[tuple[Workplaces, DirStore]]:
    """Workplaces, and a store in `out` or in a temporary folder."""
    with scratch_folder("grade") as scratch:
        async with open_runner(settings) as runner:
            yield Workplaces(trees, settings, runner), DirStore((out or scratch) / GRADES)


def check_trees(trees: Path) -> None:
    """Raises BadData: `trees` is not a folder."""
    if not trees.is_dir():
        raise BadData(f"{trees} is not a directory: give a folder of bare clones.")


def write_output(
    out: Path | None, files: Mapping[str, str], *, see: str, document: str, text: str, as_json: bool
) -> None:
    """Write `files` into `out` and name the one to `see`; print `document` or `text`.

    `document` is JSON; without either `out` or `as_json`, `text` is printed. Raises OSError.
    """
    if out:
        out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (out / name).write_text(content, encoding="utf-8")
        print_progress(f"See {out}/{see}.")
    if as_json:
        sys.stdout.write(document)
    elif not out:
        sys.stdout.write(printable(text))


GOLD, NONE = "gold", "none"
"""Instead of a file of predictions: every instance's reference edit, or no edit."""
GRADES: Final = "grades"


async def grade_predictions(
    instances: Path, trees: Path, predictions: str, out: Path | None, settings: Settings
) -> GradeReport:
    """Grade the edits of `predictions` (a file, `gold` or `none`), several instances at a time.

    Each instance gets an environment of its base commit. Verdicts are saved in `out`, so that a
    second call continues. Prints a line for each instance on standard error.

    Raises:
        BadData: the instances or the predictions cannot be read.
        SandboxUnavailable: Docker does not answer; call again to continue.
    """
    rows = await asyncio.to_thread(read_rows, instances, GradedInstance)
    await asyncio.to_thread(check_trees, trees)
    named = predictions in (GOLD, NONE)
    found = predictions if named else await asyncio.to_thread(read_predictions, Path(predictions))
    edits = choose_edits(rows, found)
    async with _open_workplaces(trees, out, settings) as (places, store):
        grades = await gather_bounded(
            settings.sandbox_parallel,
            (_grade_saved(row, edits[row.instance_id], store, places) for row in rows),
        )
    return build_grade_report(grades)


async def _grade_saved(
    row: GradedInstance, diff: str, store: DirStore, places: Workplaces
) -> InstanceGrade:
    own = ScopedStore(store, row.instance_id)
    key = f"verdict/{digest(row.model_dump_json(), diff)}"
    grade = await own.load(key, InstanceGrade)
    if grade is None:
        began = time.monotonic()
        try:
            async with places.open(row, own) as place:
                grade = await place.build_grader(row).grade(diff)
                grade = replace(grade, environment=place.environment)
        except CannotMeasure as error:
            grade = InstanceGrade(instance_id=row.instance_id, cannot_tell=str(error))
        grade = replace(grade, seconds=round(time.monotonic() - began, 1))
        await own.save(key, grade)
        await places.evict_images()
    counts = f"{grade.fixed} of {grade.to_fix} fixed, {grade.kept} of {grade.to_keep} kept"
    text = f"{_verdict(grade)} ({counts}, {grade.seconds:.0f} s). {grade.note}".rstrip()
    if grade.cannot_tell:
        text = f"cannot tell. {grade.cannot_tell}"
    print_progress(f"{row.instance_id}: {text}")
    return grade


def write_grades(found: GradeReport, out: Path | None, *, as_json: bool) -> None:
    """Write grades.json and grades.md into `out`; see `write_output`."""
    document = json.dumps(found.model_dump(mode="json"), indent=1) + "\n"
    text = _render_markdown(found)
    files = {"grades.json": document, "grades.md": text}
    write_output(out, files, see="grades.md", document=document, text=text, as_json=as_json)


def _render_markdown(found: GradeReport) -> str:
    told = found.instances - len(found.cannot_tell)
    score = "" if found.score is None else f", {found.score:.1f} % of those"
    lost = [f"- {code(name)}: {prose(why, 500)}" for name, why in found.cannot_tell.items()]
    wrong = [f"- {code(name)}: {prose(why, 500)}" for name, why in found.unresolved.items()]
    return "\n".join(
        [
            "# Verdicts\n",
            f"{pluralize(found.instances, 'instance')}, {told} graded: "
            f"{len(found.resolved)} resolved{score}.\n",
            *table(
                ("instance", "verdict", "fixed", "kept", "set aside", "seconds"),
                [
                    (
                        code(grade.instance_id),
                        _verdict(grade),
                        f"{grade.fixed} of {grade.to_fix}",
                        f"{grade.kept} of {grade.to_keep}",
                        grade.aside,
                        f"{grade.seconds:.0f}",
                    )
                    for grade in found.grades
                ],
            ),
            *(["Not resolved:\n", *wrong, ""] if wrong else []),
            *(["Cannot be graded in these environments:\n", *lost, ""] if lost else []),
        ]
    )


def _verdict(grade: InstanceGrade) -> str:
    if grade.cannot_tell:
        return "cannot tell"
    return "resolved" if grade.resolved else "not resolved"


class Executions(Frozen):
    """The executed edits, and the instances that could not be judged."""

    edits: tuple[ExecutedEdit, ...]
    cannot_tell: dict[str, str] = Field(default_factory=dict[str, str])
    """The reason by instance. Untrusted."""


async def execute_edits(
    instances: Path, trees: Path, data: Dataset, out: Path | None, settings: Settings
) -> Executions:
    """Run the benchmark's and nearby tests on a few right and wrong edits of each instance.

    The results are saved in `out`, so that a second call continues.

    Raises:
        BadData: the instances cannot be read.
        SandboxUnavailable: Docker does not answer; call again to continue.
    """
    rows = await asyncio.to_thread(read_rows, instances, GradedInstance)
    await asyncio.to_thread(check_trees, trees)
    async with _open_workplaces(trees, out, settings) as (places, store):
        found = await gather_bounded(
            settings.sandbox_parallel,
            (_execute_instance(row, data, store, places) for row in rows),
        )
    return Executions(
        edits=tuple(edit for one in found for edit in one.edits),
        cannot_tell={name: why for one in found for name, why in one.cannot_tell.items()},
    )


async def _execute_instance(
    row: GradedInstance, data: Dataset, store: DirStore, places: Workplaces
) -> Executions:
    name = row.instance_id
    own = ScopedStore(store, name)
    edits = [patches.get(name, "") for patches in data.patches.values()]
    try:
        base = await read_base(await open_base(places.trees, row.repo, row.base_commit), edits)
    except CannotMeasure:
        base = dict[str, str]()  # `open` says so below
    drawn = await asyncio.to_thread(draw_edits, data, name, base.get)
    key = f"executions/{digest(row.model_dump_json(), *(repr(edit) for edit in drawn))}"
    found = await own.load(key, Executions)
    if found is None:
        try:
            async with places.open(row, own) as place:
                found = await _execute_edits(row, drawn, place)
        except CannotMeasure as error:
            found = Executions(edits=(), cannot_tell={name: str(error)})
        await own.save(key, found)
        await places.evict_images()
    why = found.cannot_tell.get(name)
    told = f"cannot tell. {why}" if why else f"{pluralize(len(found.edits), 'edit')} executed."
    print_progress(f"{name}: {told}")
    return found


async def _execute_edits(
    row: GradedInstance, drawn: Sequence[DrawnEdit], place: Workplace
) -> Executions:
    edits: list[ExecutedEdit] = []
    grader = place.build_grader(row)
    tests = NearbyTests(Workspace(place.sandbox, place.codebase, place.store, Options()))
    for edit in drawn:
        judged = await grader.judge(edit.diff)
        if judged.grade.cannot_tell:
            return Executions(edits=(), cannot_tell={row.instance_id: judged.grade.cannot_tell})
        if not judged.to_fix:
            continue  # it does not apply
        try:
            near = await tests.compare(edit.diff)
        except PatchRejected:
            continue
        edits.append(
            ExecutedEdit(
                instance_id=row.instance_id,
                repo=row.repo,
                member=edit.member,
                right=edit.right,
                fixed=tuple(test not in judged.left for test in judged.to_fix),
                broken=near and near.broken,
            )
        )
    return Executions(edits=tuple(edits))


def write_executions(found: Executions, out: Path | None, *, as_json: bool) -> None:
    """Write executions.jsonl into `out`, for `tests.benchmarks.fitting.fit_ratios`."""

    def describe(edit: ExecutedEdit) -> str:
        near = "no result of the nearby tests"
        if edit.broken is not None:
            near = f"{pluralize(len(edit.broken), 'nearby test')} broken"
        passed = f"{sum(edit.fixed)} of {len(edit.fixed)} fixed"
        word = "right" if edit.right else "wrong"
        return f"{edit.instance_id}, {edit.member} ({word}): {passed}, {near}.\n"

    write_output(
        out,
        {"executions.jsonl": "".join(edit.model_dump_json() + "\n" for edit in found.edits)},
        see="executions.jsonl",
        document=json.dumps(found.model_dump(mode="json"), indent=1) + "\n",
        text="".join(map(describe, found.edits)),
        as_json=as_json,
    )
