"""The verdict, saved and shown; the letter of each edit.

Only the prompts of the choice itself differ: they are written before anybody knows which edit
becomes A, so they letter the finalists by their rank so far. No later prompt names edits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from pipeline.data.options import Options, Recalibration, SelectionMethod
from pipeline.data.suite_reports import FurtherScript, Reason, Standing, SuiteReport
from pipeline.data.types import (
    NO_CHECKLIST,
    Candidate,
    Checklist,
    DecidedBy,
    Issue,
    NoFix,
    NoFixReason,
    Selection,
    TestScript,
    VoteTable,
)
from pipeline.selection.scoring.standings import Standings
from sandbox.frozen import Frozen, replace


def rank_edits(table: VoteTable, order: Sequence[int] = ()) -> tuple[int, ...]:
    """Indices into `table.candidates`, best first, one for each distinct diff.

    Edits in `order` come first, in that order; the others follow by votes. The first index of a
    diff represents all edits with that diff.
    """
    return table.distinct((*order, *table.order()))


def order_by_scripts(table: VoteTable, order: Sequence[int]) -> tuple[int, ...]:
    """The first of `order`, then all other edits by the scripts that they pass, as tables show."""
    first, *others = rank_edits(table, order)
    return (first, *sorted(others, key=lambda c: -table.votes(c)))


def rank_result(result: Selection | NoFix) -> tuple[int, ...]:
    """The ranked edits of a finished run (see `rank_edits`); empty if the run judged no edit.

    `/capuchin use B` takes the second of these.
    """
    match result:
        case Selection():
            proof = result.evidence
            chosen = (proof.votes.candidates.index(result.candidate),)
            return rank_edits(proof.votes, proof.order or chosen)
        case NoFix():
            edits = result.edits
            return rank_edits(edits.votes, edits.order) if edits else ()


def get_votes(result: Selection | NoFix) -> VoteTable | None:
    """The table of the edits that `rank_result` ranks; None if the run judged no edit."""
    if isinstance(result, Selection):
        return result.evidence.votes
    return result.edits.votes if result.edits else None


def assign_letters(table: VoteTable, order: Sequence[int] = ()) -> tuple[str, ...]:
    """The letter of each of `table.candidates`; edits with the same diff share a letter."""
    ranked = rank_edits(table, order)
    by_diff = {table.candidates[c].patch.diff: to_letter(at) for at, c in enumerate(ranked)}
    return tuple(by_diff[candidate.patch.diff] for candidate in table.candidates)


def to_letter(rank: int) -> str:
    """The letter of the edit at `rank`, from 0: A to Z, then AA, AB, …

    Raises:
        ValueError: `rank` is negative.
    """
    if rank < 0:
        raise ValueError("a rank is 0 or more")
    letters = ""
    rest = rank + 1
    while rest:
        rest, at = divmod(rest - 1, len(ascii_uppercase))
        letters = ascii_uppercase[at] + letters
    return letters


def to_rank(letter: str) -> int | None:
    """The rank, from 0, that `letter` (in either case) names; None if it names no edit."""
    name = letter.strip().upper()
    if not 1 <= len(name) <= 2 or any(character not in ascii_uppercase for character in name):
        return None
    rank = 0
    for character in name:
        rank = rank * len(ascii_uppercase) + ascii_uppercase.index(character) + 1
    return rank - 1


def name_edits(table: VoteTable, order: Sequence[int] = ()) -> tuple[str, ...]:
    """The display name of each of `table.candidates`: its letter, or its source.

    Untrusted if an edit has a `source`.
    """
    letters = assign_letters(table, order)
    return tuple(c.source or at for c, at in zip(table.candidates, letters, strict=True))


def list_said(judged: "Judgement") -> list[str]:
    """What models said for the chosen edit when it was chosen, and what one that was shown it found
    wrong with it. Untrusted."""
    own = judged.chosen and judged.chosen.sample
    faults = (one.fault for one in judged.table.candidates if one.fault and one.fault_of == own)
    return [*(reason.text for reason in judged.verdict.reasons), *faults]


def list_faults(table: VoteTable, order: Sequence[int]) -> list[str]:
    """What samples found wrong with edits that they were shown, with the letters of both.
    Untrusted."""
    names = name_edits(table, order)
    by_sample = dict(zip((one.sample for one in table.candidates), names, strict=True))
    return [
        f"A sample that read edit {by_sample[one.fault_of]} found a fault in it: “{one.fault}”"
        for one in table.candidates
        if one.fault and one.fault_of in by_sample
    ]


class SelectionQuestion(Frozen):
    """The inputs of a judgement on which the verdict depends; saved under `question/<method>`."""

    issue: Issue
    candidates: tuple[Candidate, ...]
    tests: tuple[TestScript, ...]
    """Tests from other sources than the candidates."""
    reproduced: bool
    options: Options
    model: bool
    reward: bool
    unseen: int = 0
    """See `Evidence`."""
    checklist: Checklist = NO_CHECKLIST


class SavedSuiteReport(Frozen):
    """The result of the repository's own tests with one edit; saved under `reports/<digest>`."""

    report: SuiteReport | None
    problem: str = ""
    """Why there is no report. Untrusted."""


class BaseFiles(Frozen):
    """The unedited files that the judged edits change; saved under `BASE_KEY`."""

    texts: Mapping[str, str] = {}


BASE_KEY = "base"


class Verdict(Frozen):
    """Saved under `verdict/<method>`. Numbers are indices into the vote table's candidates."""

    method: SelectionMethod
    chosen: int | None
    """None: no candidate may be proposed; `reason` explains it."""
    reason: NoFixReason | None = None
    sample: int | None = None
    """The chosen candidate's sample, used to score the run later."""
    order: tuple[int, ...] = ()
    """The chosen candidate, then the others by the scripts that they pass; without a choice, the
    best first. Equal diffs appear once."""
    finalists: tuple[int, ...] = ()
    """The candidates of the final decision, best first."""
    decided_by: DecidedBy = "only one"
    reasons: tuple[Reason, ...] = ()
    passed_over: tuple[str, ...] = ()
    """Why edits that were ranked higher were not chosen, a sentence each."""
    why: str = ""
    """The explanation, in our own words; names of tests and the `reasons` in it are untrusted."""
    rounds: int = 0
    """How many tests were written to distinguish the finalists."""
    further: tuple[FurtherScript, ...] = ()
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
    notes: tuple[str, ...] = ()
    """Deviations from the normal course, in sentences. Untrusted."""


@dataclass(frozen=True)
class Judgement:
    table: VoteTable
    verdict: Verdict
    standings: Standings | None = None
    """What the verdict rests on; None where it was not weighed."""

    @property
    def chosen(self) -> Candidate | None:
        at = self.verdict.chosen
        return None if at is None else self.table.candidates[at]

    def with_note(self, note: str) -> "Judgement":
        """The same with a further note before the others."""
        verdict = replace(self.verdict, notes=(note, *self.verdict.notes))
        return Judgement(self.table, verdict, self.standings)
