"""The parts of `report.json`: the table, executions and suites as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from bot.types import replace
from pipeline.outcomes import CutShort
from pipeline.selection.letters import name_edits
from pipeline.types import Candidate, Rung, Standing, SuiteReport, VoteTable
from sandbox.base import Execution


class ReportPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExecutionSummary(ReportPart):
    """How one execution ended; its output is in the run's bundle."""

    exit_code: int | None
    ending: str
    seconds: float


class TableRow(ReportPart):
    """The results of every test on one edit or on the unedited code: True if it passes."""

    name: str
    chosen: bool
    passes: int
    results: tuple[bool, ...]
    support: int | None = None
    """How many edits are equal to it after normalisation, including itself."""
    broken: tuple[str, ...] | None = None
    """The repository's own tests that it breaks; null if they did not run with it."""
    reward: float | None = None
    machine: str = ""
    """What wrote it: a `fixed` machine or one that can `explore`; empty if it is not known."""
    model: str = ""
    """The model that wrote it; empty if it is not known."""
    score: float | None = None
    """In log-odds; only differences within the table are meaningful."""


class ReproductionSummary(ReportPart):
    rung: Rung
    """What became the test; `none`: the script alone was run."""
    path: str
    command: tuple[str, ...]
    before: ExecutionSummary
    after: ExecutionSummary


class SuiteSummary(ReportPart):
    """The repository's own tests, as counts."""

    command: tuple[str, ...]
    passed_before: int
    failed_before: int
    passed_after: int
    failed_after: int
    broken: tuple[str, ...]
    failing: tuple[str, ...]
    """Tests that fail without the edit and were not run with it."""
    flaky: tuple[str, ...]
    """Excluded from all counts: they do not always pass without the edit."""
    whole: int
    """How many tests pass without the edit; `passed_before` counts those also run with it."""
    chosen: str
    """Which tests ran, in words; empty if all did."""
    cut_before: CutShort | None = None
    """How far the run without the edit came, if a time limit ended it."""
    cut_after: CutShort | None = None


def build_table(
    votes: VoteTable,
    standings: Sequence[Standing],
    chosen: Candidate | None,
    order: Sequence[int],
) -> tuple[TableRow, ...]:
    """The rows of the table, the unedited code first, then the edits in `order`."""
    rows = [_build_row("unedited code", votes.base)]
    known = standings or [None for _ in votes.candidates]
    names = name_edits(votes, order)
    for c in sorted(range(len(names)), key=lambda c: _place(order, c)):
        candidate, runs, stands = votes.candidates[c], votes.runs[c], known[c]
        row = _build_row(names[c], runs, chosen=candidate == chosen)
        row = replace(row, machine=candidate.machine, model=candidate.model)
        if stands:
            columns = {"support": stands.support, "broken": stands.broken, "reward": stands.reward}
            row = replace(row, **columns, score=stands.score)
        rows.append(row)
    return tuple(rows)


def order_names(votes: VoteTable, order: Sequence[int]) -> tuple[str, ...]:
    """The names of the edits in `order`."""
    names = name_edits(votes, order)
    return tuple(names[c] for c in order)


def _place(order: Sequence[int], candidate: int) -> int:
    return order.index(candidate) if candidate in order else len(order)


def _build_row(name: str, runs: Sequence[Execution], *, chosen: bool = False) -> TableRow:
    results = tuple(run.passed for run in runs)
    return TableRow(name=name, chosen=chosen, passes=sum(results), results=results)


def summarise_execution(run: Execution) -> ExecutionSummary:
    """How `run` ended."""
    return ExecutionSummary(exit_code=run.exit_code, ending=run.ending.value, seconds=run.seconds)


def summarise_suite(suite: SuiteReport) -> SuiteSummary:
    """`suite` as counts."""
    return SuiteSummary(
        command=suite.command,
        passed_before=len(suite.before.passed),
        failed_before=len(suite.before.failed),
        passed_after=len(suite.after.passed),
        failed_after=len(suite.after.failed),
        broken=suite.broken,
        failing=suite.failing,
        flaky=suite.flaky,
        whole=suite.whole,
        chosen=suite.chosen,
        cut_before=suite.before.cut,
        cut_after=suite.after.cut,
    )
