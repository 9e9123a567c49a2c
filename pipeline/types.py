"""The nouns of the pipeline. Plain frozen data: no clients, no I/O, no GitHub."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from pipeline.models.base import Usage
from sandbox.base import Execution


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Issue(Frozen):
    """What a person reported, as text. Untrusted everywhere."""

    repository: str
    """`owner/name`, for the prompts."""
    title: str
    body: str
    discussion: tuple[str, ...] = ()
    """The comments, oldest first, each beginning with its author's name."""


class SourceFile(Frozen):
    path: str
    text: str
    tokens: int


class Context(Frozen):
    """The files the model may see, most useful first, within the token budget."""

    files: tuple[SourceFile, ...]
    dropped: tuple[str, ...] = ()
    """Files that may matter and are not among them: too large, too many, or ranked as needless."""
    scanned: int = 0
    """How many files were read to find these."""


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
    sample: int
    patch: Patch
    test: TestScript | None = None
    """The script its own machine ended with."""


class VoteTable(Frozen):
    """Every candidate run against every sample's test (CodeMonkeys, section 2.3)."""

    candidates: tuple[Candidate, ...]
    tests: tuple[TestScript, ...]
    base: tuple[Execution, ...]
    """`base[t]` is test `t` on the unedited code."""
    runs: tuple[tuple[Execution, ...], ...]
    """`runs[c][t]` is test `t` with candidate `c` applied."""

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
    """The repository's own tests before and after the chosen edit."""

    command: tuple[str, ...]
    before: SuiteRun
    after: SuiteRun

    @property
    def broken(self) -> tuple[str, ...]:
        """Tests that pass on the unedited code and do not with the edit."""
        return tuple(sorted(set(self.before.passed) - set(self.after.passed)))


class Reproduction(Frozen):
    """The reproduction test as a file of the repository, seen failing and then passing."""

    path: str
    text: str
    diff: str
    """Adds the file."""
    command: tuple[str, ...]
    before: Execution
    after: Execution


class Account(Frozen):
    """What one stage spent at one model."""

    stage: str
    model: str
    calls: int
    usage: Usage
    dollars: float


class Evidence(Frozen):
    """Why the chosen edit is believed, in the form a reviewer can check."""

    votes: VoteTable
    finalists: tuple[int, ...]
    """Indices into `votes.candidates`, most votes first."""
    selection_rounds: int
    """How many tests the selection machine wrote to tell the finalists apart."""
    reproduction: Reproduction
    suite: SuiteReport | None
    """None when the repository has no tests that could be found."""
    title: str
    cause: str
    change: str
    """A pull request's title, what was wrong, what was changed: the model's words. Untrusted."""
    context: Context


class Selection(Frozen):
    """The chosen edit."""

    candidate: Candidate
    decided_by: Literal["only one", "votes", "model"]
    confidence: float
    """Share of the tests that fail on the unedited code which the edit passes. Not calibrated."""
    evidence: Evidence


NoFixReason = Literal[
    "empty repository",
    "no source files",
    "no relevant files",
    "no reproduction",
    "no edit",
    "no edit passes its test",
    "edits break tests",
    "reproduction not confirmed",
    "out of budget",
]


class NoFix(Frozen):
    """An honest no: why, and what was learnt on the way."""

    reason: NoFixReason
    learnt: tuple[str, ...] = ()
    """Sentences for the maintainer. May quote the repository or a model: untrusted."""
