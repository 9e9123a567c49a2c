"""What the repository's tests near an edit say of it, for the model that wrote the edit."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.codebase.conventions import is_test
from pipeline.edits.unified_diff import list_paths
from pipeline.reasons import count_near, describe_cut
from pipeline.types import FailedOtherwise, SuiteReport

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
    otherwise: tuple[FailedOtherwise, ...] = ()
    """Tests that fail without the edit, too, but with another exception; at most `MOST_NAMED`."""

    @property
    def to_mend(self) -> bool:
        """Whether the writer of the edit has to see it."""
        return bool(self.failed or self.otherwise)


def describe_near_tests(report: SuiteReport | None, diff: str) -> NearTests:
    """What `report`, if there is one, says of the edit `diff`."""
    if report is None:
        return NearTests(_NOT_RUN)
    passed, failed = report.passed_only_after, report.failed_only_after
    sentences = [count_near(report), describe_cut(report)]
    if not passed and not failed and any(map(is_test, list_paths(diff))):
        sentences.append(_NO_NEW)
    text = " ".join(filter(None, sentences))
    otherwise = report.failed_otherwise[:MOST_NAMED]
    return NearTests(text, passed[:MOST_NAMED], failed[:MOST_NAMED], otherwise)
