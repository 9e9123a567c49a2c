"""Tells how far the runs of tests are."""

import math
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from pipeline.data.progress import Count, Doing
from pipeline.regression.command import RequestedTests
from prompts.text import pluralize

REPORT_SECONDS = 10.0
"""Between two reports."""


class RunCount(NamedTuple):
    """How far one run is."""

    begun: int
    total: int
    """0 where it is not known."""
    edit: str
    """Its diff; empty without one."""
    chosen: bool
    ended: bool = False


class CountReporter:
    """Counts the runs that go on at the same time together. Reports how far they are, at most every
    `REPORT_SECONDS`, and the end of the last of them."""

    def __init__(self, report: Callable[[Doing], None]) -> None:
        self._report = report
        self._reported_at = -math.inf
        self._runs: dict[tuple[str, str], RunCount] = {}

    def count(self, diff: str, wanted: RequestedTests, begun: int, total: int) -> None:
        """Note how far the run of `wanted` with `diff` is; `total` is 0 where it is not known."""
        run = RunCount(begun, total, diff, wanted.are_chosen)
        self._runs[diff, wanted.key()] = run
        self.tell(describe_counts(self._runs.values()))

    def end(self, diff: str, wanted: RequestedTests, ran: int) -> None:
        """Note that the run is over, and that `ran` of its tests have a result."""
        key = diff, wanted.key()
        if key in self._runs:
            self._runs[key] = self._runs[key]._replace(begun=ran, total=ran, ended=True)
            if all(run.ended for run in self._runs.values()):
                self._report(describe_counts(self._runs.values()))
                self._runs.clear()

    def tell(self, doing: Doing) -> None:
        """Report, unless a report has just been made."""
        now = time.monotonic()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._report(doing)


def describe_counts(runs: Collection[RunCount]) -> Doing:
    """How far the `runs` of the repository's tests, which go on at the same time, are together."""
    ended = all(run.ended for run in runs)
    some = "some of " if any(run.chosen for run in runs) else ""
    diffs = {run.edit for run in runs}
    edits, how = len(diffs - {""}), ["without an edit"] * ("" in diffs)
    how += [f"with {pluralize(edits, 'edit')}"] if edits > 1 else ["with an edit"] * edits
    text = f"{some}this repository's tests {' and '.join(how)}"
    begun, total = sum(run.begun for run in runs), sum(run.total for run in runs)
    if ended:
        return Doing(f"Ran {text}: {pluralize(begun, 'result')}.")
    is_known = all(run.total >= run.begun for run in runs)
    begun_of = f"{begun:,} of {pluralize(total, 'test')}" if is_known else pluralize(begun, "test")
    if done := sum(run.ended for run in runs):  # what a limit left out of one counts no more
        text += f" ({pluralize(done, 'run')} ended)"
    return Doing(
        f"Running {text}: {begun_of} begun.", Count(begun, total, "tests") if is_known else None
    )
