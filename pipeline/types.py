"""The nouns of the pipeline. Plain frozen data: no clients, no I/O, no GitHub."""

from __future__ import annotations

from typing import Literal

from pipeline.usage import Account as Account
from pipeline.usage import Usage as Usage
from sandbox.base import Execution
from sandbox.frozen import Frozen as Frozen
from sandbox.frozen import replace as replace


class Issue(Frozen):
    """What a person reported, as text. Untrusted everywhere."""

    repository: str
    """`owner/name`, for the prompts."""
    title: str
    body: str
    discussion: tuple[str, ...] = ()
    """The comments, oldest first, each beginning with its author's name."""


class SourceFile(Frozen):
    """A file of the codebase as the model sees it."""

    path: str
    text: str
    tokens: int
    partial: bool = False
    """Whether `text` holds parts of the file only, and says where it leaves out lines."""


class ShownFile(Frozen):
    """One file of a context, and why it is there."""

    path: str
    tokens: int
    partial: bool
    why: str
    """The scout's words, or what it shares with the issue. Untrusted."""


class Findings(Frozen):
    """How a context was found."""

    way: Literal["scout", "words, then scout", "words"]
    """Who chose what was ranked: the scout read every file; or those that share the most words with
    the issue; or there is no scout, and shared words chose."""
    files: int
    """That are source."""
    read: int
    """Files that the scout read, now or for an earlier run of the issue; 0 without one."""
    read_tokens: int
    """Tokens of what was searched: of what the scout read, or of all source without one."""
    unknown: int = 0
    """Files that the scout gave no readable verdict on: shown last where there is room."""
    invented: int = 0
    """Paths in the solver's orders that were in no list, and were dropped."""
    meaning: str = ""
    """What an embedding model had to do with it, in a sentence; empty where none was needed."""
    shown: tuple[ShownFile, ...] = ()

    @property
    def compression(self) -> float:
        """How many times fewer tokens are shown than were searched."""
        return self.read_tokens / max(1, sum(file.tokens for file in self.shown))


class Context(Frozen):
    """The files the model may see, most useful first, within the token budget."""

    files: tuple[SourceFile, ...]
    dropped: tuple[str, ...] = ()
    """Files that may matter and are not among them: too large, too many, or ranked as needless."""
    scanned: int = 0
    """How many files were read to find these."""
    not_read: tuple[str, ...] = ()
    """Sentences: how many files were left out unread, and why."""
    findings: Findings | None = None


class TestScript(Frozen):
    """A stand-alone Python script: exit 0 when the issue is fixed, 2 when not, else broken.

    The protocol of CodeMonkeys, section 2.2.
    """

    __test__ = False

    text: str


class Patch(Frozen):
    """A unified diff made by git, so that it always applies to the base commit."""

    diff: str


class Candidate(Frozen):
    """One edit that takes part in the choice."""

    sample: int
    """The number of the sample that wrote it, from 0."""
    patch: Patch
    test: TestScript | None = None
    """The script its own machine ended with."""
    source: str = ""
    """Where an edit that we did not write comes from, in a person's words. Untrusted."""

    @property
    def name(self) -> str:
        """What people call it. Untrusted where it has a `source`."""
        return self.source or f"edit {self.sample + 1}"


class RejectedEdit(Frozen):
    """An edit that cannot take part: its diff does not apply."""

    name: str
    why: str
    """Git's own words. Untrusted."""


class VoteTable(Frozen):
    """Every candidate run against every sample's test (CodeMonkeys, section 2.3).

    C candidates and T tests, named by their indices from 0.
    """

    candidates: tuple[Candidate, ...]
    tests: tuple[TestScript, ...]
    base: tuple[Execution, ...]
    """`base[t]` is test `t` on the unedited code."""
    runs: tuple[tuple[Execution, ...], ...]
    """`runs[c][t]` is test `t` with candidate `c` applied."""
    flaky: tuple[int, ...] = ()
    """Indices of tests that ended differently when they were run again; they do not vote."""
    rejected: tuple[RejectedEdit, ...] = ()
    """Edits that are not among `candidates`, because they do not apply."""

    def votes(self, candidate: int) -> int:
        """How many tests the candidate passes."""
        return sum(run.passed for run in self.runs[candidate])

    def order(self) -> list[int]:
        """Candidate indices, most votes first; the shorter diff, then the earlier sample, first."""
        return sorted(
            range(len(self.candidates)),
            key=lambda c: (-self.votes(c), len(self.candidates[c].patch.diff), c),
        )

    def leaders(self, count: int) -> list[int]:
        """The first `count` of `order()`, one for each distinct diff."""
        distinct: dict[str, int] = {}
        for c in self.order():
            distinct.setdefault(self.candidates[c].patch.diff, c)
        return list(distinct.values())[:count]


class SuiteRun(Frozen):
    """The repository's own tests, once."""

    execution: Execution
    passed: tuple[str, ...]
    failed: tuple[str, ...]


class SuiteReport(Frozen):
    """The repository's own tests, or those of them that matter for an edit, without and with it.

    What tests say of themselves: hostile code can forge it, so it is evidence beside other.
    """

    command: tuple[str, ...]
    before: SuiteRun
    """Of what passes, only the tests that were also run with the edit."""
    after: SuiteRun
    whole: int = 0
    """How many tests pass without the edit, as far as known; 0 where nobody counted."""
    chosen: str = ""
    """Which of them were run, in our words; empty when all were."""
    flaky: tuple[str, ...] = ()
    """Tests that seemed broken, but do not always pass without the edit; left out above."""

    @property
    def broken(self) -> tuple[str, ...]:
        """Tests that pass on the unedited code and do not with the edit."""
        return tuple(sorted(set(self.before.passed) - set(self.after.passed)))


class Standing(Frozen):
    """What is known of one candidate beside the others."""

    votes: int
    """Tests passed, all tests counted."""
    passes: int
    """Tests passed of those that vote."""
    support: int
    """How many candidates are equal to it after normalisation, itself included."""
    same_as: int
    """The first candidate that is equal to it after normalisation; itself where it is the first."""
    behaves_as: int
    """The first candidate with which every test ended in the same way."""
    execution: float
    """What the executions say for it, in log-odds (`pipeline.selection.scoring.execution`)."""
    prior: float
    """What its text beside the others' says for it: the fitted ranking, in log-odds."""
    broken: tuple[str, ...] | None = None
    """The repository's own tests that it breaks; None where they were not run with it."""
    reward: float | None = None
    """The reward model's score; None where it gave none."""

    @property
    def score(self) -> float:
        """In log-odds; only differences within one contest mean anything."""
        return self.prior + self.execution


class Reproduction(Frozen):
    """The reproduction test as a file of the repository, seen failing and then passing."""

    path: str
    text: str
    diff: str
    """Adds the file."""
    command: tuple[str, ...]
    before: Execution
    after: Execution


class Evidence(Frozen):
    """Why the chosen edit is believed, in the form a reviewer can check."""

    votes: VoteTable
    finalists: tuple[int, ...]
    """Indices into `votes.candidates`, most votes first."""
    selection_rounds: int
    """How many tests the selection machine wrote to tell the finalists apart."""
    reproduction: Reproduction
    suite: SuiteReport | None
    """None when the repository has no tests that could be found and run."""
    suite_problem: str = ""
    """Why there is no `suite`, in a sentence. May quote the repository: untrusted."""
    title: str
    cause: str
    change: str
    """A pull request's title, what was wrong, what was changed: the model's words. Untrusted."""
    context: Context
    method: str = ""
    """The way of choosing that was set."""
    why: str = ""
    """Why this edit and no other, in our own words; the names of tests in them are untrusted."""
    standings: tuple[Standing, ...] = ()
    """One for each of `votes.candidates`."""
    order: tuple[int, ...] = ()
    """Indices into `votes.candidates`: the chosen edit, then those to fall back on."""
    notes: tuple[str, ...] = ()
    """What went otherwise than it should, in sentences. Untrusted."""
    cut_short: str = ""
    """Which ceiling was reached before all was done, as a sentence; empty when none was."""


DecidedBy = Literal["only one", "votes", "evidence", "support", "reward model", "model", "person"]


class Selection(Frozen):
    """The chosen edit."""

    candidate: Candidate
    decided_by: DecidedBy
    confidence: float
    """The probability that the edit is right (`pipeline.selection.scoring.execution`)."""
    evidence: Evidence

    @property
    def runners_up(self) -> tuple[Candidate, ...]:
        """What was not chosen, next best first."""
        return tuple(self.evidence.votes.candidates[c] for c in self.evidence.order[1:])


NoFixReason = Literal[
    "empty repository",
    "no source files",
    "no relevant files",
    "no reproduction",
    "no edit",
    "no edit passes its test",
    "edits break tests",
    "reproduction not confirmed",
    "not sure enough",
    "out of budget",
]


class NoFix(Frozen):
    """An honest no: why, and what was learnt on the way."""

    reason: NoFixReason
    details: tuple[str, ...] = ()
    """Sentences for the maintainer. May quote the repository or a model: untrusted."""
    script: str = ""
    """A script that fails on the code as it is, where one was written. Untrusted."""
    suspects: tuple[str, ...] = ()
    """Files that the edits changed, those that most edits changed first. Untrusted."""

    @property
    def is_final(self) -> bool:
        """Whether the same run, started again with a higher ceiling or a lower threshold, would
        end the same."""
        return self.reason not in ("out of budget", "not sure enough")
