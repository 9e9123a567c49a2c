"""The words and marks for edits and what ran with them, in comments, pages and terminals alike.

Edits run against scripts (which show the issue), the reproduction test (which is committed) and the
repository's own tests. The ends of runs have theirs in `RunStatus.words`.
"""

from typing import Final, NamedTuple

from pipeline.data.suite_reports import TestOutcome
from pipeline.data.types import NOT_FIXED
from sandbox.program import Ending, Execution

EDIT_TABLE: Final = "Edits × scripts"
UNEDITED: Final = "unedited code"
REPRODUCTION_TEST: Final = "reproduction test"
CHOSEN: Final = "chosen"


class Mark(NamedTuple):
    sign: str
    """For a cell of a table; empty if unknown."""
    words: str
    """As the verb of a sentence."""
    kind: str
    """Its style on pages: `good`, `bad`, `odd`, or empty if unknown."""


PASSES: Final = Mark("✅", "passes", "good")
FAILS: Final = Mark("❌", "fails", "bad")
NO_VERDICT: Final = Mark("💥", "no verdict", "odd")
TIMEOUT: Final = Mark("⏱", "times out", "odd")


def mark_script(run: Execution) -> Mark:
    """How a script ended: exit code 2 means that the issue is still present; any other, that the
    script itself broke."""
    if run.passed:
        return PASSES
    if run.ending is Ending.TIMEOUT:
        return TIMEOUT
    return FAILS if run.exit_code == NOT_FIXED else NO_VERDICT


def mark_test(outcome: TestOutcome | None) -> Mark:
    """How the reproduction test ended; None: it did not run with this edit."""
    if outcome is None:
        return Mark("", "not known", "")
    marks = {"passes": PASSES, "fails": FAILS}
    return marks.get(outcome) or NO_VERDICT._replace(words="could not be run")
