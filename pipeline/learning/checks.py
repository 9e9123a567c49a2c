"""The paper's four checks of an attempt, and which of its replies may be learnt (section 2.1.1)."""

from __future__ import annotations

from pipeline.learning.locations import hits_places, list_changed_files, shingle_diff, similarity
from pipeline.learning.records import Attempt, ReplyRow, SolvedIssue, Stage
from pipeline.types import Frozen

ALIKE = 0.8
"""From this similarity on, an edit without a valid script counts as the developers' edit."""


class Checks(Frozen):
    """The results of the checks; None: the evidence was not gathered."""

    files: bool
    """Whether it found every file that the developers changed."""
    places: bool
    """Whether its edit changes something at every place that the developers changed."""
    reproduction: bool | None
    """Whether its script is red on the unedited code and green with the developers' edit."""
    patch: bool | None
    """Whether its edit is right."""
    whole: bool | None
    """Whether its edit breaks no test."""

    @property
    def right(self) -> bool | None:
        """Whether the edit is right and breaks nothing, as far as is known."""
        if self.patch is False or self.whole is False:
            return False
        return self.patch and self.whole

    @property
    def accepted(self) -> bool:
        """Whether all four checks passed."""
        return self.files and self.places and self.reproduction is True and self.right is True


def check_attempt(issue: SolvedIssue, attempt: Attempt) -> Checks:
    """Check an attempt against the developers' edit, by what was recorded and executed.

    A benchmark's label covers the patch and the tests that it may not break.
    """
    changed = list_changed_files(issue.reference)
    found = list_changed_files(attempt.diff) | frozenset(attempt.shown or ())
    reproduction = _check_reproduction(attempt)
    label = attempt.resolved
    whole = label if label is not None else _breaks_nothing(attempt)
    return Checks(
        files=bool(changed) and changed <= found,
        places=hits_places(attempt.diff, issue.reference),
        reproduction=reproduction,
        patch=label if label is not None else _check_patch(issue, attempt, reproduction),
        whole=whole,
    )


def _check_reproduction(attempt: Attempt) -> bool | None:
    if not attempt.script or attempt.red_before is False:
        return False if attempt.replies else None
    if attempt.red_before is None or attempt.green_on_reference is None:
        return None
    return attempt.green_on_reference


def _breaks_nothing(attempt: Attempt) -> bool | None:
    if not attempt.diff:
        return False
    return None if attempt.broken is None else not attempt.broken


def _check_patch(issue: SolvedIssue, attempt: Attempt, reproduction: bool | None) -> bool | None:
    """By its valid script; without one, right if it is like the developers' edit. One that is
    unlike theirs may be right as well."""
    if not attempt.diff:
        return False
    if reproduction:
        return attempt.passes_script
    if reproduction is None and attempt.script:
        return None
    likeness = similarity(shingle_diff(attempt.diff), shingle_diff(issue.reference))
    return True if likeness >= ALIKE else None


def select_replies(attempt: Attempt, checks: Checks) -> tuple[ReplyRow, ...]:
    """The replies up to the first stage that failed: the correct prefix of a failed attempt.

    Of a search, those of the conversations that named every file or place.
    """
    passed: dict[Stage, bool] = {
        "understanding": False,
        "localisation": False,
        "files": checks.files,
        "reproduction": checks.files and checks.reproduction is True,
        "edit": checks.accepted,
    }
    return tuple(
        reply
        for reply in attempt.replies
        if (passed[reply.stage] if reply.right is None else reply.right)
    )
