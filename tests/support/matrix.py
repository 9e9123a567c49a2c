"""Every test on every edit: each distinct pair runs once and is reported as soon as it ends."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from itertools import islice

from sandbox.base import Sandbox
from sandbox.errors import PatchRejected
from sandbox.program import Execution, python_script

MAX_PARALLEL = 8
"""Executions requested at once; the sandbox runs as many of them as it is allowed to."""
EDITS_PER_BATCH = 4
"""Edits whose executions are mixed."""
Pair = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class Cell:
    """One test on one edit, by their positions in the arguments."""

    edit: int
    test: int
    run: Execution | PatchRejected
    """The latter where the edit does not apply, so that nothing ran."""


async def run_matrix(
    sandbox: Sandbox,
    edits: Sequence[Sequence[str]],
    tests: Sequence[str],
    *,
    seconds: float | None = None,
    side_by_side: int = MAX_PARALLEL,
) -> AsyncGenerator[Cell, None]:
    """Run the scripts `tests` on each of `edits`, tuples of diffs; `()` is the unedited code.

    Cells come in the order of ending; equal pairs share one execution and come together. Leaving
    the iteration early (`contextlib.aclosing`) stops what still runs.

    Raises:
        SandboxUnavailable: as `Sandbox.run`; what still ran is stopped.
    """
    places = _cells_by_pair(edits, tests)
    waiting = iter(places)
    running: dict[asyncio.Task[Execution | PatchRejected], Pair] = {}
    try:
        while True:
            for pair in islice(waiting, side_by_side - len(running)):
                running[asyncio.create_task(_run_pair(sandbox, pair, seconds))] = pair
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for pair, run in [(running.pop(task), task.result()) for task in done]:
                for e, t in places[pair]:
                    yield Cell(e, t, run)
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)


def _cells_by_pair(
    edits: Sequence[Sequence[str]], tests: Sequence[str]
) -> dict[Pair, list[tuple[int, int]]]:
    """The distinct pairs and the cells that each fills.

    A few edits at a time, test by test: so side by side there are executions of different edits,
    and each place that executes can keep to its own.
    """
    places: dict[Pair, list[tuple[int, int]]] = {}
    numbered = list(enumerate(edits))
    for at in range(0, len(numbered), EDITS_PER_BATCH):
        for t, test in enumerate(tests):
            for e, diffs in numbered[at : at + EDITS_PER_BATCH]:
                places.setdefault((tuple(diffs), test), []).append((e, t))
    return places


async def _run_pair(
    sandbox: Sandbox, pair: Pair, seconds: float | None
) -> Execution | PatchRejected:
    diffs, test = pair
    try:
        return await sandbox.run(python_script(test, diffs=diffs, seconds=seconds))
    except PatchRejected as error:
        return error
