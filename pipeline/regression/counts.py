"""Tells how far a run of tests is."""

import math
import time
from collections.abc import Callable

from pipeline.data.progress import Count, Doing
from pipeline.regression.command import RequestedTests
from prompts.text import pluralize

REPORT_SECONDS = 10.0
"""Between two reports."""


class CountReporter:
    """Reports at most every `REPORT_SECONDS`; an `OnCount`."""

    def __init__(self, report: Callable[[Doing], None]) -> None:
        self._report = report
        self._reported_at = -math.inf

    def __call__(self, diff: str, wanted: RequestedTests, begun: int, total: int) -> None:
        self.tell(describe_count(wanted, begun, total, edited=bool(diff)))

    def tell(self, doing: Doing) -> None:
        """Report, unless a report has just been made."""
        now = time.monotonic()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._report(doing)


def describe_count(wanted: RequestedTests, begun: int, total: int, *, edited: bool) -> Doing:
    """How far a run of the repository's tests is; `total` is 0 where it is not known."""
    tests = "some of this repository's tests" if wanted.are_chosen else "this repository's tests"
    is_known = total >= begun
    begun_of = f"{begun:,} of {pluralize(total, 'test')}" if is_known else pluralize(begun, "test")
    return Doing(
        f"Running {tests} {'with' if edited else 'without'} an edit: {begun_of} begun.",
        Count(begun, total, "tests") if is_known else None,
    )
