"""What the bot says of choosing among edits that are there: to `judge` and `use`."""

from __future__ import annotations

from typing import Final, NamedTuple

from bot.comments.status import in_status
from bot.markdown import prose
from bot.storage.branch_history import order_of
from bot.types import Run
from pipeline.codebase.text import count_of
from pipeline.types import Selection

LISTED: Final = 20


class Held(NamedTuple):
    """The edits of the run whose pull request is `pull`, and which of them is in it."""

    selection: Selection
    pull: int
    place: int | None
    """As `use` counts; None when the branch holds something else."""


def runners_up(result: Selection, place: int | None = None) -> str:
    """The edits in the order by which `use` counts them; that at `place` is in the pull request."""
    votes = result.evidence.votes
    rows = (
        f"{number}. {votes.candidates[c].name}, which passes {votes.votes(c)} of "
        f"{count_of(len(votes.tests), 'test')}"
        + (" (in the pull request)" if number == place else "")
        for number, c in enumerate(order_of(result)[:LISTED], 1)
    )
    return "\n".join(rows)


def use_what(name: str, held: Held) -> str:
    """To `use` without the number of an edit that there is."""
    count = len(order_of(held.selection))
    return (
        f"Please give one number from 1 to {count}, as in `/{name} use {min(2, count)}`. These are "
        f"the edits that I have, best first:\n\n{runners_up(held.selection, held.place)}"
    )


def edits_of(name: str, held: Held) -> str:
    """To `explain`: what `use` can put into the pull request."""
    return (
        f"The edits that I have for #{held.pull}, best first; `/{name} use 2` puts the second into "
        f"it:\n\n{runners_up(held.selection, held.place)}"
    )


def nothing_to_use() -> str:
    """To `use` where there is no pull request of ours."""
    return "I have opened no pull request for this in the last 30 days, so I have no other edit."


def no_longer_kept(number: int) -> str:
    """To `use` when the record of the run is there, but not its edits."""
    return f"I no longer have the edits that I did not choose for #{number}."


def told_on(issue: int) -> str:
    """To `use` on the pull request: where the rest is said."""
    return f"I tell on #{issue} what comes of it."


def judge_what(name: str, most: int) -> str:
    """To `judge` without pull requests, or with too many."""
    return f"Please name the pull requests, {most} at most, as in `/{name} judge #12 #34`."


def used(run: Run, number: int, selection: Selection) -> str:
    """The status comment when the pull request holds another edit."""
    proof = selection.evidence
    test = (
        "The reproduction test passes with it and stays."
        if proof.reproduction.after.passed
        else "The reproduction test does not pass with it, and was taken out."
    )
    broken = len(proof.suite.broken) if proof.suite else 0
    said = _breaks(broken)
    return in_status(
        run,
        f"#{number} holds {selection.candidate.name} now, number {run.candidate} of those I have "
        f"for it, as @{run.asked_by} asked. {test}{said}",
    )


def _breaks(number: int) -> str:
    if not number:
        return ""
    verb = "passes" if number == 1 else "pass"
    return f" {count_of(number, 'test')} of this repository {verb} without it and not with it."


def not_used(run: Run, why: str) -> str:
    """The status comment when the pull request stays as it is."""
    return in_status(run, f"I left the pull request as it is. {why}")


def run_not_kept() -> str:
    """Why the pull request stays as it is, as all below."""
    return "I no longer have the run that opened the pull request."


def edits_not_kept() -> str:
    """The run is known, its edits are not."""
    return "I no longer have the edits of that run."


def not_open(number: int) -> str:
    """The pull request was closed or merged."""
    return f"#{number} is no longer open."


def no_such_edit(place: int) -> str:
    """There are fewer."""
    return f"I have no edit number {place} for it."


def held_already(number: int, place: int) -> str:
    """The pull request has that edit."""
    return f"#{number} holds number {place} of my edits already."


def changed_since(number: int) -> str:
    """The branch holds what followed a review."""
    return (
        f"I have changed #{number} since, in answer to a review, and another edit would take "
        "that back. Ask for the change that you want in a review."
    )


def pushed_to(number: int) -> str:
    """The branch holds a person's commit."""
    return f"Somebody else has pushed to the branch of #{number}, and I do not touch their work."


def may_not_push(why: str) -> str:
    """The edit touches what no edit may; `why` is a sentence without its end, untrusted."""
    return f"I may not push that edit: {prose(why, 600)}."


def push_refused(number: int) -> str:
    """GitHub did not take the push."""
    return f"The branch of #{number} has moved, or its rules forbid the push."
