"""`capuchin evaluate INSTANCES --trees DIR --grade PREDICTIONS --labels FILE`, of a folder: what do
executions show about edits whose worth is known?
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import Field

from bot.cli.display.base import print_progress
from bot.cli.evaluation.grade import GRADES
from bot.cli.evaluation.workplace import CannotTell, Workplace, Workplaces, check_trees, digest
from bot.cli.terminal import printable
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import GRADE_OWNER, build_engine
from bot.settings import Settings
from pipeline.codebase.text import pluralize
from pipeline.concurrency import gather_bounded
from pipeline.evaluation.dataset import Dataset
from pipeline.evaluation.executions.record import DrawnEdit, ExecutedEdit, draw_edits
from pipeline.evaluation.grading import GradedInstance, read_graded
from pipeline.store import DirStore, ScopedStore
from pipeline.types import Frozen
from sandbox.errors import PatchRejected
from sandbox.scratch import scratch_folder

FILE: Final = "executions.jsonl"


class Executions(Frozen):
    """What ran, and where nothing could be told."""

    edits: tuple[ExecutedEdit, ...]
    cannot_tell: dict[str, str] = Field(default_factory=dict[str, str])
    """Instance to why. Untrusted."""


async def execute_edits(
    instances: Path, trees: Path, data: Dataset, out: Path | None, settings: Settings
) -> Executions:
    """Run the benchmark's tests and the near tests on a few right and wrong edits per instance.

    What ran is saved in `out`, so that a second call continues.

    Raises:
        BadData: the instances cannot be read.
        SandboxUnavailable: Docker does not answer; call again to go on.
    """
    rows = await asyncio.to_thread(read_graded, instances)
    await asyncio.to_thread(check_trees, trees)
    engine = build_engine(settings, owner=GRADE_OWNER)
    with scratch_folder("grade") as scratch:
        places = Workplaces(trees, settings, PipelineRunner(settings, engine))
        store = DirStore((out or scratch) / GRADES)
        try:
            found = await gather_bounded(
                settings.sandbox_parallel,
                (_execute_instance(row, data, store, places) for row in rows),
            )
        finally:
            await engine.close()
    return Executions(
        edits=tuple(edit for one in found for edit in one.edits),
        cannot_tell={name: why for one in found for name, why in one.cannot_tell.items()},
    )


async def _execute_instance(
    row: GradedInstance, data: Dataset, store: DirStore, places: Workplaces
) -> Executions:
    name = row.instance_id
    own = ScopedStore(store, name)
    drawn = await asyncio.to_thread(draw_edits, data, name)
    key = f"executions/{digest(row.model_dump_json(), *(repr(edit) for edit in drawn))}"
    found = await own.load(key, Executions)
    if found is None:
        try:
            async with places.open(row, own) as place:
                found = await _execute_edits(row, drawn, place)
        except CannotTell as error:
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
    for edit in drawn:
        judged = await place.grader.judge(edit.diff)
        if judged.grade.cannot_tell:
            return Executions(edits=(), cannot_tell={row.instance_id: judged.grade.cannot_tell})
        if not judged.to_fix:
            continue  # it does not apply
        try:
            near = await place.near.compare(edit.diff)
        except PatchRejected:
            continue
        edits.append(
            ExecutedEdit(
                instance_id=row.instance_id,
                repo=row.repo,
                member=edit.member,
                right=edit.right,
                fixed=tuple(test not in judged.left for test in judged.to_fix),
                broken=None if near is None else len(near.broken),
            )
        )
    return Executions(edits=tuple(edits))


def write_executions(found: Executions, out: Path | None, *, as_json: bool) -> None:
    """Write executions.jsonl into `out`, for `pipeline.evaluation.executions.fit`.

    Raises:
        OSError: the file cannot be written.
    """
    if out:
        out.mkdir(parents=True, exist_ok=True)
        lines = "".join(edit.model_dump_json() + "\n" for edit in found.edits)
        (out / FILE).write_text(lines, encoding="utf-8")
        print_progress(f"See {out}/{FILE}.")
    if as_json:
        sys.stdout.write(json.dumps(found.model_dump(mode="json"), indent=1) + "\n")
    elif not out:
        sys.stdout.write(printable("".join(f"{_line(edit)}\n" for edit in found.edits)))


def _line(edit: ExecutedEdit) -> str:
    word = "right" if edit.right else "wrong"
    near = "near tests told nothing"
    if edit.broken is not None:
        near = f"{pluralize(edit.broken, 'near test')} broken"
    passed = f"{sum(edit.fixed)} of {len(edit.fixed)} fixed"
    return f"{edit.instance_id}, {edit.member} ({word}): {passed}, {near}."
