"""The results of test runners, and the evidence about edits that follows from them."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from sandbox.frozen import Frozen
from sandbox.program import Execution

SKIPPED: Final = "skipped or expected to fail"
"""Tests that neither passed nor failed, for people."""
TestOutcome = Literal["passes", "fails", "not run"]
"""The outcome of a test file; `not run`: the run ended without a verdict on its tests."""


class CutShort(Frozen):
    ran: int
    skipped: int = 0
    """Those of `ran` that were skipped, or failed as expected."""
    selected: int = 0
    """Tests that were selected to run; 0 if not known."""


class SuiteRun(Frozen):
    execution: Execution
    passed: tuple[str, ...]
    failed: tuple[str, ...]
    """Failed tests, without those in `offline`."""
    offline: tuple[str, ...] = ()
    """Tests that failed for lack of a network, a display or a service: no evidence."""
    errors: tuple[str, ...] = ()
    """Those of `failed` that ended in an error outside of their own checks, such as in a set-up."""
    skipped: tuple[str, ...] = ()
    """Tests that were skipped, or failed as they are expected to: no evidence."""
    raised: Mapping[str, str] = {}
    """By failed test, if known: the class of the exception that ended it."""
    cut: CutShort | None = None
    """None if the time allowed all of the tests."""

    @property
    def count(self) -> int:
        """How many tests have a result, of whatever kind."""
        return len({*self.passed, *self.failed, *self.offline, *self.skipped})


class FailedOtherwise(NamedTuple):
    """A test that fails without and with an edit, and the exception of each run; untrusted."""

    test: str
    before: str
    after: str


class SuiteReport(Frozen):
    """The results of the repository's own tests, or the relevant ones, without and with an edit.

    Tests report on themselves, so hostile code can forge them: treat them as one piece of evidence.
    """

    command: tuple[str, ...]
    before: SuiteRun
    """Its passed and failed tests include only those that were also run with the edit."""
    after: SuiteRun
    whole: int = 0
    """How many tests are known to pass without the edit; 0 if not counted."""
    chosen: str = ""
    """Which tests ran, in our words; empty if all did."""
    near: int = 0
    """Of the tests that pass without the edit, those nearest to it, which ran by themselves before
    the others; 0 if all ran together. Outputs are those of the others, unless only these
    break."""
    files: tuple[str, ...] = ()
    """The files of the tests that ran, while near tests are being compared."""
    unreached: bool = False
    """Whether none of the tests that ran is known to be of a changed module: its file is neither
    changed, nor named after it, nor does it import it, nor did the test run what changed."""
    uncontrolled: bool = False
    """Whether no control could be run: an edit that forges these results would not be seen."""
    failing: tuple[str, ...] = ()
    """Tests that fail without the edit and were not run with it."""
    flaky: tuple[str, ...] = ()
    """Tests that seemed broken but do not always pass without the edit; excluded from the
    results."""
    passed_again: tuple[str, ...] = ()
    """Tests that failed with the edit in the run of the output, and passed in a further one."""

    @property
    def broken(self) -> tuple[str, ...]:
        """Tests that pass on the unedited code but not with the edit."""
        return tuple(sorted(set(self.before.passed) - set(self.after.passed)))

    @property
    def passed_after(self) -> tuple[str, ...]:
        """Tests with a result without the edit that pass with it."""
        return tuple(sorted(set(self.after.passed) & self._known))

    @property
    def passed_only_after(self) -> tuple[str, ...]:
        """Tests without a result without the edit that pass with it: those that it brings."""
        return tuple(sorted(set(self.after.passed) - self._known))

    @property
    def failed_only_after(self) -> tuple[str, ...]:
        """Tests without a result without the edit that fail with it."""
        return tuple(sorted(set(self.after.failed) - self._known))

    @property
    def failed_otherwise(self) -> tuple[FailedOtherwise, ...]:
        """Tests that fail without and with the edit, but not with the same class of exception."""
        both = sorted(set(self.before.failed) & set(self.after.failed))
        found = ((name, self.before.raised.get(name), self.after.raised.get(name)) for name in both)
        return tuple(
            FailedOtherwise(name, before, after)
            for name, before, after in found
            if before and after and before != after
        )

    @property
    def _known(self) -> set[str]:
        before = self.before
        return {
            *before.passed, *before.failed, *before.offline, *before.skipped, *self.flaky
        }  # fmt: skip

    @property
    def is_near(self) -> bool:
        """Whether only the tests near the edit ran."""
        return not self.whole


class Reason(Frozen):
    """What a model said for its choice, in a sentence. Untrusted."""

    text: str
    against: int | None = None
    """The candidate that lost; None if several did."""


class FurtherScript(Frozen):
    """A script that was written to tell finalists apart, and does: it passes with some of them. Or
    one that reaches the changed lines from elsewhere."""

    text: str
    base: Execution
    candidates: tuple[int, ...]
    """The edits with which it ran, as indices into the vote table's candidates."""
    runs: tuple[Execution, ...]
    after_choice: bool = False
    """Whether it was written after the choice, which it left as it was or overturned."""


class FailedTests(Frozen):
    """Tests that one edit brings and that do not pass with another."""

    by: int
    """The edit that brings them, a candidate of the vote table; they pass with it."""
    tests: tuple[str, ...]


class Standing(Frozen):
    """The evidence about one candidate relative to the others."""

    votes: int
    passes: int
    support: int
    """How many candidates equal it after normalisation, itself included."""
    same_as: int
    """The first candidate that equals it after normalisation, possibly itself."""
    behaves_as: int
    """The first candidate with which every test ended in the same way."""
    execution: float
    """The evidence of the executions, in log-odds (`pipeline.selection.scoring.standings`)."""
    prior: float
    """The evidence of its text among the others': the fitted ranking, in log-odds."""
    broken: tuple[str, ...] | None = None
    """The repository's own tests that it breaks; None if they did not run with it."""
    covers: int = 0
    """The weight of a checklist's points whose files it changes."""
    near: int | None = None
    """How many of the tests near it it breaks, where these are all that ran with it; else None."""
    reward: float | None = None
    """The reward model's score; None if it gave none."""
    fails: tuple[FailedTests, ...] = ()
    """Tests that other edits bring and that ran and did not pass with it."""

    @property
    def score(self) -> float:
        """The total in log-odds; only differences within one contest are meaningful."""
        return self.prior + self.execution
