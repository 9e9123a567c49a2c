"""What the bot says of choosing among edits that are there: to `judge` and `use`."""

from __future__ import annotations

from typing import Final

from bot.comments import in_status
from bot.contents import order_of
from bot.types import Run
from pipeline.types import Selection

LISTED: Final = 20


def runners_up(result: Selection) -> str:
    """The edits in the order by which `use` counts them."""
    votes = result.evidence.votes
    rows = (
        f"{place}. {votes.candidates[c].name}, which passes {votes.votes(c)} of "
        f"{len(votes.tests)} tests"
        + (" (in the pull request)" if votes.candidates[c] == result.candidate else "")
        for place, c in enumerate(order_of(result)[:LISTED], 1)
    )
    return "\n".join(rows)


def use_what(name: str, result: Selection) -> str:
    """To `use` without the number of an edit that there is."""
    count = len(order_of(result))
    return (
        f"Please give one number from 1 to {count}, as in `/{name} use {min(2, count)}`. These are "
        f"the edits that I have, best first:\n\n{runners_up(result)}"
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
    said = f" {broken} tests of this repository pass without it and not with it." if broken else ""
    return in_status(
        run,
        f"#{number} holds my edit {run.candidate} now ({selection.candidate.name}), as "
        f"@{run.asked_by} asked. {test}{said}",
    )


def not_used(run: Run, why: str) -> str:
    """The status comment when the pull request stays as it is."""
    return in_status(run, f"I left the pull request as it is. {why}")
