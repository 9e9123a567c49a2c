"""`capuchin evaluate INSTANCES --trees DIR --grade PREDICTIONS`: which edits solve theirs?"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Final

from bot.cli.display.base import print_progress
from bot.cli.evaluation.workplace import CannotTell, Workplaces, check_trees, digest
from bot.cli.terminal import printable
from bot.markdown import code, prose
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import GRADE_OWNER, build_engine
from bot.settings import Settings
from pipeline.codebase.text import pluralize
from pipeline.concurrency import gather_bounded
from pipeline.evaluation.dataset import read_predictions
from pipeline.evaluation.grading import (
    GradedInstance,
    GradeReport,
    InstanceGrade,
    build_grade_report,
    choose_edits,
    read_graded,
)
from pipeline.store import DirStore, ScopedStore, Store
from pipeline.types import replace
from sandbox.scratch import scratch_folder

GOLD, NONE = "gold", "none"
"""In place of a file of predictions: every instance's reference edit, or no edit at all."""
GRADES: Final = "grades"


async def grade_predictions(
    instances: Path, trees: Path, predictions: str, out: Path | None, settings: Settings
) -> GradeReport:
    """Grade the edits of `predictions` (a file, `gold` or `none`), several instances at a time.

    Each instance gets an environment of its base commit. Verdicts are saved in `out`, so that a
    second call continues. Prints a line for each instance on standard error.

    Raises:
        BadData: the instances or the predictions cannot be read.
        SandboxUnavailable: Docker does not answer; call again to go on.
    """
    rows = await asyncio.to_thread(read_graded, instances)
    await asyncio.to_thread(check_trees, trees)
    named = predictions in (GOLD, NONE)
    found = predictions if named else await asyncio.to_thread(read_predictions, Path(predictions))
    edits = choose_edits(rows, found)
    engine = build_engine(settings, owner=GRADE_OWNER)
    with scratch_folder("grade") as scratch:
        places = Workplaces(trees, settings, PipelineRunner(settings, engine))
        grading = _Grading(DirStore((out or scratch) / GRADES), places)
        try:
            grades = await gather_bounded(
                settings.sandbox_parallel,
                (grading.grade(row, edits[row.instance_id]) for row in rows),
            )
        finally:
            await engine.close()
    return build_grade_report(grades)


class _Grading:
    """Grades one instance after another with one engine."""

    def __init__(self, store: DirStore, places: Workplaces) -> None:
        self._store = store
        self._places = places

    async def grade(self, row: GradedInstance, diff: str) -> InstanceGrade:
        """The verdict over `diff`, saved."""
        store = ScopedStore(self._store, row.instance_id)
        key = f"verdict/{digest(row.model_dump_json(), diff)}"
        grade = await store.load(key, InstanceGrade)
        if grade is None:
            began = time.monotonic()
            grade = await self._grade_new(row, diff, store)
            grade = replace(grade, seconds=round(time.monotonic() - began, 1))
            await store.save(key, grade)
            await self._places.evict_images()
        print_progress(_line(grade))
        return grade

    async def _grade_new(self, row: GradedInstance, diff: str, store: Store) -> InstanceGrade:
        try:
            async with self._places.open(row, store) as place:
                grade = await place.grader.grade(diff)
        except CannotTell as error:
            return InstanceGrade(instance_id=row.instance_id, cannot_tell=str(error))
        return replace(grade, environment=place.environment)


def _line(grade: InstanceGrade) -> str:
    if grade.cannot_tell:
        return f"{grade.instance_id}: cannot tell. {grade.cannot_tell}"
    counts = f"{grade.fixed} of {grade.to_fix} fixed, {grade.kept} of {grade.to_keep} kept"
    text = f"{grade.instance_id}: {_verdict(grade)} ({counts}, {grade.seconds:.0f} s)."
    return f"{text} {grade.note}".rstrip()


def write_grades(found: GradeReport, out: Path | None, *, as_json: bool) -> None:
    """Write grades.json and grades.md into `out`.

    Raises:
        OSError: a file cannot be written.
    """
    text = json.dumps(found.model_dump(mode="json"), indent=1) + "\n"
    table = _render_markdown(found)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        (out / "grades.json").write_text(text, encoding="utf-8")
        (out / "grades.md").write_text(table, encoding="utf-8")
        print_progress(f"See {out}/grades.md.")
    if as_json:
        sys.stdout.write(text)
    elif not out:
        sys.stdout.write(printable(table))


def _render_markdown(found: GradeReport) -> str:
    told = found.instances - len(found.cannot_tell)
    score = "" if found.score is None else f", {found.score:.1f} % of those"
    rows = [
        f"| {code(grade.instance_id)} | {_verdict(grade)} | {grade.fixed} of {grade.to_fix} "
        f"| {grade.kept} of {grade.to_keep} | {grade.aside} | {grade.seconds:.0f} |"
        for grade in found.grades
    ]
    lost = [f"- {code(name)}: {prose(why, 500)}" for name, why in found.cannot_tell.items()]
    wrong = [f"- {code(name)}: {prose(why, 500)}" for name, why in found.unresolved.items()]
    return "\n".join(
        [
            "# Verdicts\n",
            f"{pluralize(found.instances, 'instance')}, {told} that can be told: "
            f"{len(found.resolved)} resolved{score}.\n",
            "| instance | verdict | fixed | kept | set aside | seconds |",
            "|---|---|--:|--:|--:|--:|",
            *rows,
            "",
            *(["Not resolved:\n", *wrong, ""] if wrong else []),
            *(["The environment cannot tell:\n", *lost, ""] if lost else []),
        ]
    )


def _verdict(grade: InstanceGrade) -> str:
    if grade.cannot_tell:
        return "cannot tell"
    return "resolved" if grade.resolved else "not resolved"
