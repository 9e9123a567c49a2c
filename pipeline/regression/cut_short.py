"""Says in a sentence that a time limit ended a run of the tests, and how far it came."""

from __future__ import annotations

from pipeline.codebase.text import pluralize
from pipeline.outcomes import CutShort, SuiteReport


def describe_cut(report: SuiteReport) -> str:
    """The sentence; empty if the time allowed both runs to end."""
    before, after = report.before.cut, report.after.cut
    if before and after:
        counts = f"{_count(before)} ran without the edit, {_count(after, short=True)} with it"
        return f"A time limit ended both runs: {counts}."
    if before:
        return f"A time limit ended the run without the edit: {_count(before)} ran."
    return f"A time limit ended the run with the edit: {_count(after)} ran." if after else ""


def _count(cut: CutShort, *, short: bool = False) -> str:
    if cut.selected:
        if short:
            return f"{cut.ran:,} of {cut.selected:,}"
        return f"{cut.ran:,} of {pluralize(cut.selected, 'selected test')}"
    return pluralize(cut.ran, "test") if cut.ran else "no test"
