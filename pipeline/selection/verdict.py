"""The verdict of the selection: saved in the run, shown to people, and read again by `evaluate`."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.options import Options, SelectionMethod
from pipeline.types import (
    Candidate,
    DecidedBy,
    Frozen,
    FurtherScript,
    Issue,
    NoFixReason,
    Reason,
    Recalibration,
    Standing,
    SuiteReport,
    TestScript,
    VoteTable,
    replace,
)


class SelectionQuestion(Frozen):
    """The inputs of a judgement on which the verdict depends; saved under `question/<method>`."""

    issue: Issue
    candidates: tuple[Candidate, ...]
    tests: tuple[TestScript, ...]
    """Tests from other sources than the candidates."""
    reproduced: bool
    options: Options
    model: bool
    """Whether a model was available."""
    reward: bool
    """Whether a reward model was available."""


class SavedSuiteReport(Frozen):
    """The result of the repository's own tests with one edit; saved under `reports/<digest>`."""

    report: SuiteReport | None
    problem: str = ""
    """Why there is no report. Untrusted."""


class Verdict(Frozen):
    """Saved under `verdict/<method>`. Numbers are indices into the vote table's candidates."""

    method: SelectionMethod
    chosen: int | None
    """None: no candidate may be proposed; `reason` explains it."""
    reason: NoFixReason | None = None
    sample: int | None = None
    """The chosen candidate's sample, used to score the run later."""
    order: tuple[int, ...] = ()
    """The chosen candidate, then the fallbacks, best first; equal diffs appear once."""
    finalists: tuple[int, ...] = ()
    """The candidates of the final decision, best first."""
    decided_by: DecidedBy = "only one"
    reasons: tuple[Reason, ...] = ()
    """Why a model chose it."""
    why: str = ""
    """The explanation, in our own words; names of tests and the `reasons` in it are untrusted."""
    rounds: int = 0
    """How many tests were written to distinguish the finalists."""
    further: tuple[FurtherScript, ...] = ()
    """Those of them that count."""
    confidence: float = 0.0
    """The probability that the chosen candidate is right; without a choice, that of the first in
    order."""
    recalibration: Recalibration | None = None
    """The correction by the repository's own history that `confidence` contains; None: none."""
    suite: SuiteReport | None = None
    """The repository's own tests with that candidate; None if they did not run."""
    suite_problem: str = ""
    """Why they did not run. Untrusted."""
    standings: tuple[Standing, ...] = ()
    flaky: tuple[int, ...] = ()
    """The flaky tests of the table."""
    notes: tuple[str, ...] = ()
    """Deviations from the normal course, in sentences. Untrusted."""


@dataclass(frozen=True)
class Judgement:
    """The judged table, with the verdict."""

    table: VoteTable
    verdict: Verdict

    @property
    def chosen(self) -> Candidate | None:
        at = self.verdict.chosen
        return None if at is None else self.table.candidates[at]

    def with_note(self, note: str) -> Judgement:
        """The same with a further note, if there is one, before the others."""
        if not note:
            return self
        verdict = replace(self.verdict, notes=(note, *self.verdict.notes))
        return Judgement(self.table, verdict)
