"""The reply to `stats`: the outcomes of the bot's work in a repository."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from bot.comments.render import render
from bot.data.run import RunStatus

MIN_FOR_RATE: Final = 10


class PullCounts(NamedTuple):
    """Counts of our pull requests from the period; from `reverted` on, of the merged ones."""

    open: int = 0
    merged: int = 0
    closed: int = 0
    """Without a merge."""
    reverted: int = 0
    recorded: int = 0
    """With a cost in our records."""
    first_choice: int = 0
    swapped: int = 0
    """The verb `use` replaced the first choice."""
    looked_at: int = 0
    """Their commits were read."""
    by_people: int = 0
    """Their commits were read, and one is by somebody else."""
    not_all_pulls: bool = False
    not_all_commits: bool = False


class Stats(NamedTuple):
    period: str
    """The end of a sentence, such as `in the last 90 days`."""
    since: datetime
    begins: datetime | None
    """The end of the oldest run in our records; None without any."""
    runs: Mapping[RunStatus, int]
    others: int
    """The number of other runs: plans, comparisons, swapped edits, paid follow-ups."""
    dollars: float
    pulls: PullCounts


def render_stats(stats: Stats) -> str:
    pulls, runs = stats.pulls, stats.runs
    slices = {
        "merged": pulls.merged - pulls.reverted,
        "merged, then reverted": pulls.reverted,
        "closed without a merge": pulls.closed,
        "open": pulls.open,
        "no fix found": runs.get(RunStatus.NO_FIX, 0),
        "failed": runs.get(RunStatus.FAILED, 0),
    }
    held = {
        "my first choice": pulls.first_choice,
        "another of my edits (`use`)": pulls.swapped,
        "an edit that is not in my records": pulls.merged - pulls.first_choice - pulls.swapped,
    }
    ends = {
        "opened a pull request": (RunStatus.OPENED_PULL_REQUEST,),
        "found no fix to propose": (RunStatus.NO_FIX,),
        "failed": (RunStatus.FAILED,),
        "stopped by a person": (RunStatus.STOPPED,),
        "not started: waiting for confirmation, or refused": (
            RunStatus.NEEDS_CONFIRMATION,
            RunStatus.REFUSED,
        ),
    }
    limits = {
        "Older pull requests missing from my records are not counted": pulls.not_all_pulls,
        "I searched only the latest commits for reverts": pulls.not_all_commits,
    }
    return render(
        "stats",
        stats=stats,
        min_for_rate=MIN_FOR_RATE,
        ends=[(words, sum(runs.get(one, 0) for one in some)) for words, some in ends.items()],
        held=[f"{number} held {which}" for which, number in held.items() if number],
        slices=[(name, number) for name, number in slices.items() if number > 0],
        limits=[sentence for sentence, holds in limits.items() if holds],
    )
