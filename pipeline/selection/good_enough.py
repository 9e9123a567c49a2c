"""Whether an edit may be stood behind when there is no money left to look closer."""

from __future__ import annotations

from pipeline.selection.voting import reporting
from pipeline.types import VoteTable


def good_enough(table: VoteTable, candidate: int) -> bool:
    """Whether a run that hit a ceiling ends with this edit, and not as out of budget.

    Its own script reports the issue on the unedited code and passes with the edit, and so do more
    than half of all scripts that report the issue. That it breaks none of the repository's tests
    is asked of every chosen edit (`Chooser`), and that a test of the repository is seen failing
    and passing as well (`Prover`).
    """
    tests = reporting(table)
    own = table.candidates[candidate].test
    if own is None or own not in table.tests:
        return False
    t = table.tests.index(own)
    passed = [test for test in tests if table.runs[candidate][test].passed]
    return t in passed and 2 * len(passed) > len(tests)
