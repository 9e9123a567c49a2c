"""What the repository's tests near an edit say of it, for the model that wrote the edit."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.codebase.conventions import is_runnable
from pipeline.codebase.text import agree, pluralize
from pipeline.edits.unified_diff import list_paths
from pipeline.reasons import describe_cut
from pipeline.types import SuiteReport

MOST_NAMED = 5
_NOT_RUN = "No test of the repository near the edit gave a result: none was run, or none passes."
_NO_NEW = "No test was run that is there only with the edit."


@dataclass(frozen=True)
class NearTests:
    """Read by a template; the names are untrusted."""

    text: str
    """Our own words."""
    passed: tuple[str, ...] = ()
    """Tests that are there only with the edit: those that pass, at most `MOST_NAMED`."""
    failed: tuple[str, ...] = ()


def describe_near_tests(report: SuiteReport | None, diff: str) -> NearTests:
    """What `report`, if there is one, says of the edit `diff`."""
    if report is None:
        return NearTests(_NOT_RUN)
    before, after = report.before, report.after
    known = {*before.passed, *before.failed, *before.offline, *before.skipped, *report.flaky}
    passed = sorted(set(after.passed) - known)
    failed = sorted(set(after.failed) - known)
    sentences = [_count(report), describe_cut(report)]
    if not passed and not failed and any(is_runnable(path) for path in list_paths(diff)):
        sentences.append(_NO_NEW)
    text = " ".join(filter(None, sentences))
    return NearTests(text, tuple(passed[:MOST_NAMED]), tuple(failed[:MOST_NAMED]))


def _count(report: SuiteReport) -> str:
    count, broken = len(report.before.passed), len(report.broken)
    mended = len(set(report.before.failed) & set(report.after.passed))
    verb = agree(count, "passes", "pass")
    text = f"{pluralize(count, 'test')} of the repository near the edit {verb} without it; with it "
    text += f"{broken:,} of them {agree(broken, 'does', 'do')} not." if broken else "none breaks."
    if mended:
        fails, passes = agree(mended, "fails", "fail"), agree(mended, "passes", "pass")
        text += f" {mended:,} that {fails} without it {passes} with it."
    return text
