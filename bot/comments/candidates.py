"""Replies to `judge` and `use`, which choose among existing edits."""

from __future__ import annotations

from typing import Final, NamedTuple

from bot.comments.status import render_status
from bot.markdown import prose
from bot.storage.branch_history import rank_candidates
from bot.types import Run
from pipeline.codebase.text import pluralize
from pipeline.types import Selection

MAX_LISTED: Final = 20


class PullCandidates(NamedTuple):
    """The edits of the run that opened pull request `pull`, and which of them it holds."""

    selection: Selection
    pull: int
    current: int | None
    """Its number for `use`; None if the branch holds something else."""


def list_candidates(result: Selection, place: int | None = None) -> str:
    """The edits as `use` numbers them; the one at `place` is in the pull request."""
    votes = result.evidence.votes
    rows = (
        f"{number}. {votes.candidates[c].name}, which passes {votes.votes(c)} of "
        f"{pluralize(len(votes.tests), 'test')}"
        + (" (in the pull request)" if number == place else "")
        for number, c in enumerate(rank_candidates(result)[:MAX_LISTED], 1)
    )
    return "\n".join(rows)


def which_candidate(name: str, candidates: PullCandidates) -> str:
    """To `use` without the number of an existing edit."""
    count = len(rank_candidates(candidates.selection))
    return (
        f"Please give a number from 1 to {count}, as in `/{name} use {min(2, count)}`. These are "
        f"my edits, best first:\n\n{list_candidates(candidates.selection, candidates.current)}"
    )


def candidates_reply(name: str, candidates: PullCandidates) -> str:
    """To `explain`: the edits that `use` can put into the pull request."""
    return (
        f"My edits for #{candidates.pull}, best first; `/{name} use 2` puts the second one "
        f"into it:\n\n{list_candidates(candidates.selection, candidates.current)}"
    )


def nothing_to_use() -> str:
    """To `use` where we have no pull request."""
    return (
        "I have not opened a pull request for this in the last 30 days, so I have no other edits."
    )


def candidates_expired(number: int) -> str:
    """To `use` when the run is known, but its edits have expired."""
    return f"I no longer have the other edits for #{number}."


def answer_on_issue(issue: int) -> str:
    """To `use` on the pull request: where the result will appear."""
    return f"I will post the result on #{issue}."


def which_pulls(name: str, most: int) -> str:
    """To `judge` without pull requests, or with too many."""
    return f"Please name the pull requests (at most {most}), as in `/{name} judge #12 #34`."


def render_swap(run: Run, number: int, selection: Selection) -> str:
    """The status comment after another edit was put into the pull request."""
    proof = selection.evidence
    test = (
        "The reproduction test passes with it and stays."
        if proof.reproduction.after.passed
        else "The reproduction test does not pass with it, so I removed the test."
    )
    broken = len(proof.suite.broken) if proof.suite else 0
    breakage = _breakage_sentence(broken)
    return render_status(
        run,
        f"As @{run.asked_by} asked, #{number} now holds {selection.candidate.name}, number "
        f"{run.candidate} of my edits for it. {test}{breakage}",
    )


def _breakage_sentence(number: int) -> str:
    if not number:
        return ""
    verb = "passes" if number == 1 else "pass"
    return f" {pluralize(number, 'test')} of this repository {verb} without it but not with it."


def render_no_swap(run: Run, why: str) -> str:
    """The status comment when the pull request stays unchanged; `why` is one of the texts below."""
    return render_status(run, f"I left the pull request unchanged. {why}")


def run_expired() -> str:
    """The run has expired."""
    return "I no longer have the run that opened the pull request."


def edits_expired() -> str:
    """The run is known, but its edits have expired."""
    return "I no longer have the edits of that run."


def pull_not_open(number: int) -> str:
    """The pull request was closed or merged."""
    return f"#{number} is no longer open."


def no_such_candidate(place: int) -> str:
    """The run has fewer edits."""
    return f"I have no edit number {place} for it."


def already_current(number: int, place: int) -> str:
    """The pull request already holds that edit."""
    return f"#{number} already holds my edit number {place}."


def review_in_between(number: int) -> str:
    """The branch holds changes made after a review."""
    return (
        f"I have since changed #{number} in response to a review, and another edit would undo "
        "that. Please request the change that you want in a review."
    )


def foreign_push(number: int) -> str:
    """The branch holds a person's commit."""
    return (
        f"Somebody else has pushed to the branch of #{number}, and I do not overwrite their work."
    )


def push_forbidden(why: str) -> str:
    """The edit changes a forbidden path; `why` is an untrusted sentence without its full stop."""
    return f"I am not allowed to push that edit: {prose(why, 600)}."


def push_rejected(number: int) -> str:
    """GitHub rejected the push."""
    return f"The branch of #{number} has moved, or its rules forbid the push."
