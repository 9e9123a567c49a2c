"""Issue, script, patch, candidate, votes, reproduction, evidence, selection; what calls cost."""

from collections.abc import Iterable
from typing import Final, Literal, NewType

from pipeline.data.code_places import Context
from pipeline.data.options import Recalibration
from pipeline.data.suite_reports import FurtherScript, Standing, SuiteReport, TestOutcome
from sandbox.frozen import Frozen, replace
from sandbox.program import Execution


class Usage(Frozen):
    """Tokens of one or more calls. `input` excludes what the cache served or stored."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )


class Account(Frozen):
    """What one stage spent at one model."""

    stage: str
    model: str
    calls: int
    usage: Usage
    dollars: float
    price_note: str = ""
    """If no price list has the model: one sentence on how `dollars` was priced; else empty."""


CommitSha = NewType("CommitSha", str)
"""The full name of a commit: 40 hexadecimal digits, or 64 in a repository of SHA-256."""


class Picture(Frozen):
    """A picture of an issue. Untrusted everywhere."""

    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    base64: str


class Issue(Frozen):
    """A reported issue, as text. Untrusted everywhere."""

    repository: str
    """`owner/name`, for the prompts; of a local repository perhaps its name alone."""
    number: int | None = None
    title: str
    body: str
    discussion: tuple[str, ...] = ()
    """The comments, oldest first, each beginning with its author's name."""
    pictures: tuple[Picture, ...] = ()
    """Those of the body that could be fetched; `[image]` marks the place of each."""

    def as_reported(self) -> "Issue":
        """The issue without what people said of it later."""
        return replace(self, discussion=())


NOT_FIXED: Final = 2
"""A script's exit code for an unfixed issue."""


class TestScript(Frozen):
    """A stand-alone script, in CodeMonkeys (section 2.2) of Python.

    It exits with 0 if the issue is fixed, with `NOT_FIXED` if not; any other code means that it
    is broken.
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
    """The last script of its own machine."""
    source: str = ""
    """The source of an edit that we did not write, in a person's words. Untrusted."""
    machine: str = ""
    """The kind of machine that wrote it, `fixed` or `explore`; empty if it is not known."""
    model: str = ""
    """The model that wrote it, as the service names it; empty if it is not known. Untrusted."""
    informed_by: tuple[int, ...] = ()
    """The samples whose edits its machine was shown before it wrote this one."""
    fault: str = ""
    """What its model found wrong with one of those; empty if nothing. Untrusted."""
    fault_of: int = 0
    summary: str = ""
    """What its sample left for others: its model's words, then what it did; empty if nothing.
    Untrusted."""

    @property
    def origin(self) -> tuple[str, ...]:
        """What tells independent sources apart: an outside name, or the kind of machine and its
        model. Samples of one machine and model make the same mistakes."""
        return (self.source,) if self.source else (self.machine, self.model)

    @property
    def name(self) -> str:
        """Its name as long as it has no letter. Untrusted if it has a `source`."""
        return self.source or f"the edit of sample {self.sample + 1}"


MOST_WEIGHT: Final = 3


class ChecklistPoint(Frozen):
    """What a complete fix must do, said by a model before any edit was written. Untrusted."""

    text: str
    weight: int
    """From 1 to `MOST_WEIGHT`."""
    path: str = ""
    """The file where it must be done; empty: none in particular."""


class Checklist(Frozen):
    points: tuple[ChecklistPoint, ...] = ()
    script: str = ""
    """Tries the points that a run can show; empty if there is none."""

    @property
    def tests(self) -> tuple[TestScript, ...]:
        return (TestScript(text=self.script),) if self.script else ()


NO_CHECKLIST: Final = Checklist()


class RejectedEdit(Frozen):
    """An edit that cannot take part: its diff does not apply, or a control passed with it."""

    name: str
    why: str
    """Ours or git's message. Untrusted."""

    @property
    def sentence(self) -> str:
        return f"{self.name} is left out: {self.why}"


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
    """Indices of tests that ended differently in a repetition; they do not vote."""
    self_serving: tuple[int, ...] = ()
    """Indices of tests that only the outside edits which contain them pass; they do not vote."""
    rejected: tuple[RejectedEdit, ...] = ()
    """Edits that are not `candidates`: they do not apply, or control runs went wrong."""
    uncontrolled: tuple[str, ...] = ()
    """The names of candidates with which no control came to a verdict. Untrusted."""
    checklist: int | None = None
    """The test that tries what a complete fix must do, and may ask for too much."""
    script_suffix: str = ""
    """The ending of a script's name."""

    @property
    def taken_over(self) -> tuple[int, ...]:
        """Indices of candidates that are the edit of a sample which theirs was shown."""
        diffs = {one.sample: one.patch.diff for one in self.candidates}
        return tuple(
            c
            for c, one in enumerate(self.candidates)
            if one.patch.diff in (diffs.get(sample) for sample in one.informed_by)
        )

    def votes(self, candidate: int) -> int:
        runs = enumerate(self.runs[candidate])
        return sum(run.passed for test, run in runs if test not in self.self_serving)

    def order(self) -> list[int]:
        """Candidate indices, most votes first; the shorter diff, then the earlier sample, first."""
        return sorted(
            range(len(self.candidates)),
            key=lambda c: (-self.votes(c), len(self.candidates[c].patch.diff), c),
        )

    def leaders(self, count: int) -> tuple[int, ...]:
        """The first `count` of `order()`, one for each distinct diff."""
        return self.distinct(self.order())[:count]

    def distinct(self, candidates: Iterable[int]) -> tuple[int, ...]:
        """The first of `candidates` with each diff."""
        first: dict[str, int] = {}
        for c in candidates:
            first.setdefault(self.candidates[c].patch.diff, c)
        return tuple(first.values())


Rung = Literal[
    "the edit's own tests", "extension", "new file", "wrapped script", "script file", "none"
]
"""The form of the reproduction test, best first; `none`: only the script could run."""


class Reproduction(Frozen):
    """The reproduction test, which fails before and passes after, with the whole `text` of its
    file; with rung `none`, the script alone."""

    path: str
    """The test file, the first if there are several; empty with rung `none`."""
    text: str
    diff: str
    """The diff of the test's commit, which applies to the base alone; empty with rung `none`."""
    command: tuple[str, ...]
    before: Execution
    after: Execution
    rung: Rung = "new file"

    @property
    def is_committed(self) -> bool:
        """Whether the pull request contains the test as a separate commit."""
        return self.rung != "none"


class Evidence(Frozen):
    """The reasons to believe in the chosen edit, in a form that a reviewer can check."""

    votes: VoteTable
    finalists: tuple[int, ...]
    """Indices into `votes.candidates`, most votes first."""
    selection_rounds: int
    """How many tests the selection machine wrote to distinguish the finalists."""
    further: tuple[FurtherScript, ...] = ()
    reproduction: Reproduction
    suite: SuiteReport | None
    """None if no tests of the repository could be found and run."""
    suite_problem: str = ""
    """Why `suite` is missing, in a sentence. May quote the repository: untrusted."""
    title: str
    cause: str
    change: str
    """The pull request's title, the cause and the change. Untrusted."""
    described: bool = True
    """Whether a model described the edit; else these say why none did."""
    context: Context
    method: str = ""
    why: str = ""
    """Why this edit was chosen, in our own words; the names of tests in it are untrusted."""
    standings: tuple[Standing, ...] = ()
    """One for each of `votes.candidates`."""
    order: tuple[int, ...] = ()
    """Indices into `votes.candidates`: the chosen edit, then the fallbacks."""
    reproduced: tuple[TestOutcome | None, ...] = ()
    """The outcome of the reproduction test with each of `votes.candidates`; None: unknown."""
    notes: tuple[str, ...] = ()
    """Deviations from the normal course, in sentences. Untrusted."""
    cut_short: str = ""
    """The ceiling that ended the work early, as a sentence; empty if there was none."""
    unseen: int = 0
    """How many scripts were written from the issue alone, if all pass on the unedited code."""
    unproven: str = ""
    """Why the edit is proposed although it is unproven, in sentences; empty if it is proven.
    Untrusted."""


DecidedBy = Literal["only one", "votes", "evidence", "support", "reward model", "model", "person"]


class Selection(Frozen):
    candidate: Candidate
    decided_by: DecidedBy
    confidence: float
    """The probability that the edit is right, with the `recalibration` if there is one."""
    recalibration: Recalibration | None = None
    evidence: Evidence

    @property
    def is_shown(self) -> bool:
        """Whether a test that can be committed failed without the edit and passed with it."""
        return not self.evidence.unproven

    @property
    def is_proven(self) -> bool:
        """Whether the tests near the edit ran as well, and it breaks none."""
        suite = self.evidence.suite
        ran = suite is not None and suite.before.passed and not suite.unreached
        return self.is_shown and bool(ran) and not (suite and suite.broken)


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
    "out of time",
    "already fixed",
    "not reproduced",
    "question",
    "unclear wish",
    "not this repository",
]


class FixedSince(Frozen):
    """The commit since which scripts that show the issue pass."""

    commit: str
    subject: str
    """The first line of its message. Untrusted."""


class JudgedEdits(Frozen):
    """The edits of a run that proposes none, with their evidence."""

    votes: VoteTable
    order: tuple[int, ...]
    """Indices into `votes.candidates`, best first; equal diffs appear once."""
    standings: tuple[Standing, ...] = ()
    """One for each of `votes.candidates`; empty if only the votes are known."""
    confidence: float | None = None
    """The probability that the first in order is right; None if it was not estimated."""
    method: str = ""
    suite: SuiteReport | None = None
    """The repository's own tests with the first in order; None if there was no result."""
    suite_problem: str = ""
    """Why `suite` is missing, in a sentence. Untrusted."""
    context: Context | None = None

    @property
    def best(self) -> Candidate:
        return self.votes.candidates[self.order[0]]


class NoFix(Frozen):
    """An honest no: the reason, and what was learnt."""

    reason: NoFixReason
    details: tuple[str, ...] = ()
    """Sentences for the maintainer. May quote the repository or a model: untrusted."""
    script: str = ""
    """A script that fails on the current code, or on the code before `fixed_since`; if it is `not
    reproduced`, one that passes; empty if there is none. Untrusted."""
    script_suffix: str = ""
    fixed_since: FixedSince | None = None
    """With the reason `already fixed`."""
    suspects: tuple[str, ...] = ()
    """Files that the edits changed, most often changed first. Untrusted."""
    edits: JudgedEdits | None = None
    """None if no edit was written or judged."""

    @property
    def is_final(self) -> bool:
        """Whether the same run would end the same with a higher ceiling or a lower threshold."""
        return self.reason not in ("out of budget", "out of time", "not sure enough")
