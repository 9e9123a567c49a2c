"""What choosing came to: kept in the run, shown to people, and read again by `evaluate`."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.options import Options, SelectionMethod
from pipeline.types import (
    Candidate,
    DecidedBy,
    Frozen,
    Issue,
    NoFixReason,
    Standing,
    SuiteReport,
    TestScript,
    VoteTable,
)


class SelectionQuestion(Frozen):
    """What a judge was asked, as far as the verdict depends on it; under `question/<method>`."""

    issue: Issue
    candidates: tuple[Candidate, ...]
    tests: tuple[TestScript, ...]
    """From elsewhere than the candidates."""
    reproduced: bool
    options: Options
    model: bool
    """Whether there was a model to ask."""
    reward: bool
    """Whether there was a reward model."""


class SavedSuiteReport(Frozen):
    """What the repository's own tests said of one edit; under `reports/<digest>`."""

    report: SuiteReport | None
    problem: str = ""
    """Why there is none. Untrusted."""


class Verdict(Frozen):
    """Saved under `verdict/<method>`. Numbers are indices into the vote table's candidates."""

    method: SelectionMethod
    chosen: int | None
    """None: no candidate may be proposed, for `reason`."""
    reason: NoFixReason | None = None
    sample: int | None = None
    """The chosen candidate's sample, by which the run is scored later."""
    order: tuple[int, ...] = ()
    """The chosen one, then those to fall back on, best first, equal diffs once."""
    finalists: tuple[int, ...] = ()
    """Among which the last decision was made, best first."""
    decided_by: DecidedBy = "only one"
    why: str = ""
    """In our own words; the names of tests in them are untrusted."""
    rounds: int = 0
    """How many tests were written to tell the finalists apart."""
    confidence: float = 0.0
    """The probability that the chosen one is right."""
    suite: SuiteReport | None = None
    """The repository's own tests with the chosen one; None where they were not run."""
    suite_problem: str = ""
    """Why they were not. Untrusted."""
    standings: tuple[Standing, ...] = ()
    flaky: tuple[int, ...] = ()
    """The table's tests that are unsteady."""
    notes: tuple[str, ...] = ()
    """What went otherwise than it should, in sentences. Untrusted."""


@dataclass(frozen=True)
class Judgement:
    """The table that was judged, with the verdict."""

    table: VoteTable
    verdict: Verdict

    @property
    def chosen(self) -> Candidate | None:
        at = self.verdict.chosen
        return None if at is None else self.table.candidates[at]
