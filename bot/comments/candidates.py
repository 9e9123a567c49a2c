"""What the bot says of choosing among edits that are there: to `judge` and `use`."""

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
    """The edits of the run whose pull request is `pull`, and which of them is in it."""

    selection: Selection
    pull: int
    current: int | None
    """As `use` counts; None when the branch holds something else."""


def list_candidates(result: Selection, place: int | None = None) -> str:
    """The edits in the order by which `use` counts them; that at `current` is in the pull request."""
    votes = result.evidence.votes
    rows = (
        f"{number}. {votes.candidates[c].name}, which passes {votes.votes(c)} of "
        f"{pluralize(len(votes.tests), 'test')}"
        + (" (in the pull request)" if number == place else "")
        for number, c in enumerate(rank_candidates(result)[:MAX_LISTED], 1)
    )
    return "\n".join(rows)


def which_candidate(name: str, candidates: PullCandidates) -> str:
    """To `use` without the number of an edit that there is."""
    count = len(rank_candidates(candidates.selection))
    return (
        f"Please give one number from 1 to {count}, as in `/{name} use {min(2, count)}`. These are "
        f"the edits that I have, best first:\n\n{list_candidates(candidates.selection, candidates.current)}"
    )


def candidates_reply(name: str, candidates: PullCandidates) -> str:
    """To `explain`: what `use` can put into the pull request."""
    return (
        f"The edits that I have for #{candidates.pull}, best first; `/{name} use 2` puts the second into "
        f"it:\n\n{list_candidates(candidates.selection, candidates.current)}"
    )


def nothing_to_use() -> str:
    """To `use` where there is no pull request of ours."""
    return "I have opened no pull request for this in the last 30 days, so I have no other edit."


def candidates_expired(number: int) -> str:
    """To `use` when the record of the run is there, but not its edits."""
    return f"I no longer have the edits that I did not choose for #{number}."


def answer_on_issue(issue: int) -> str:
    """To `use` on the pull request: where the rest is said."""
    return f"I tell on #{issue} what comes of it."


def which_pulls(name: str, most: int) -> str:
    """To `judge` without pull requests, or with too many."""
    return f"Please name the pull requests, {most} at most, as in `/{name} judge #12 #34`."


def render_swap(run: Run, number: int, selection: Selection) -> str:
    """The status comment when the pull request holds another edit."""
    proof = selection.evidence
    test = (
        "The reproduction test passes with it and stays."
        if proof.reproduction.after.passed
        else "The reproduction test does not pass with it, and was taken out."
    )
    broken = len(proof.suite.broken) if proof.suite else 0
    breakage = _breakage_sentence(broken)
    return render_status(
        run,
        f"#{number} holds {selection.candidate.name} now, number {run.candidate} of those I have "
        f"for it, as @{run.asked_by} asked. {test}{breakage}",
    )


def _breakage_sentence(number: int) -> str:
    if not number:
        return ""
    verb = "passes" if number == 1 else "pass"
    return f" {pluralize(number, 'test')} of this repository {verb} without it and not with it."


def render_no_swap(run: Run, why: str) -> str:
    """The status comment when the pull request stays as it is."""
    return render_status(run, f"I left the pull request as it is. {why}")


def run_expired() -> str:
    """Why the pull request stays as it is, as all below."""
    return "I no longer have the run that opened the pull request."


def edits_expired() -> str:
    """The run is known, its edits are not."""
    return "I no longer have the edits of that run."


def pull_not_open(number: int) -> str:
    """The pull request was closed or merged."""
    return f"#{number} is no longer open."


def no_such_candidate(place: int) -> str:
    """There are fewer."""
    return f"I have no edit number {place} for it."


def already_current(number: int, place: int) -> str:
    """The pull request has that edit."""
    return f"#{number} holds number {place} of my edits already."


def review_in_between(number: int) -> str:
    """The branch holds what followed a review."""
    return (
        f"I have changed #{number} since, in answer to a review, and another edit would take "
        "that back. Ask for the change that you want in a review."
    )


def foreign_push(number: int) -> str:
    """The branch holds a person's commit."""
    return f"Somebody else has pushed to the branch of #{number}, and I do not touch their work."


def push_forbidden(why: str) -> str:
    """The edit touches what no edit may; `why` is a sentence without its end, untrusted."""
    return f"I may not push that edit: {prose(why, 600)}."


def push_rejected(number: int) -> str:
    """GitHub did not take the push."""
    return f"The branch of #{number} has moved, or its rules forbid the push."
