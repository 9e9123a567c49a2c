"""The verb `stats`: the results of our work in a repository.

Our records show how runs ended and what they cost; GitHub shows what happened to pull requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from bot.commands.command import CommandContext
from bot.comments import stats as replies
from bot.github.repository import Repository
from bot.outcomes.curve import render_curve
from bot.outcomes.pulls import find_changed, find_pulls
from bot.outcomes.recalibration import load_decided_edits
from bot.queue.consumer import RetryLater
from bot.storage.history import HISTORY_DAYS, History, RunHistoryEntry
from bot.types import Mode, now
from pipeline.codebase.text import pluralize

DEFAULT_DAYS: Final = 90
MAX_READ: Final = 20
"""How many merged pull requests have their commits read: the latest."""


async def show_stats(ctx: CommandContext) -> RetryLater | None:
    """Reply with merged, closed and reverted pull requests, the ends of runs, and the cost."""
    days = _parse_days(ctx)
    if days is None:
        text = replies.how_many_days(ctx.settings.app_name, HISTORY_DAYS)
    else:
        since = now() - timedelta(days=days)
        period = "in the last 24 hours" if days == 1 else f"in the last {pluralize(days, 'day')}"
        history = ctx.queue.storage.history
        text = replies.render_stats(await load_stats(ctx.repo, history, period, since))
        text += render_curve(await load_decided_edits(ctx.repo, history))
    await ctx.reply(text)
    return None


def _parse_days(ctx: CommandContext) -> int | None:
    command = ctx.request.command
    if not command.words:
        return DEFAULT_DAYS
    days = command.numbers[0] if command.numbers else 0
    return days if 1 <= days <= HISTORY_DAYS else None


async def load_stats(
    repo: Repository,
    history: History,
    period: str,
    since: datetime,
    until: datetime | None = None,
) -> replies.Stats:
    """The results from `since` on and before `until`; `period` is their name in a sentence.

    Raises GitHubError and redis-py's errors.
    """
    ended, begins = await history.load(repo.ref, since, until)
    fixes = [one for one in ended if one.mode in (Mode.FIX, Mode.AUTO)]
    return replies.Stats(
        period=period,
        since=since,
        begins=begins,
        runs=Counter(one.status for one in fixes),
        others=len(ended) - len(fixes),
        dollars=sum(one.dollars for one in ended),
        pulls=await _count_pulls(repo, ended, since, until),
    )


async def _count_pulls(
    repo: Repository,
    ended: Sequence[RunHistoryEntry],
    since: datetime,
    until: datetime | None,
) -> replies.PullCounts:
    known = {one.pull for one in ended if one.pull and one.candidate}
    found = await find_pulls(repo, known, since, until)
    ours, merged = found.pulls, found.merged
    open_ = sum(one.state == "open" for one in ours)
    place = {one.pull: one.candidate for one in ended if one.pull and one.candidate}
    places = [place.get(one.number, 0) for one in merged]
    read = merged[:MAX_READ]
    changed = await find_changed(repo, read)
    return replies.PullCounts(
        open=open_,
        merged=len(merged),
        closed=len(ours) - len(merged) - open_,
        reverted=len(found.reverted),
        recorded=sum(one > 0 for one in places),
        first_choice=sum(one == 1 for one in places),
        swapped=sum(one > 1 for one in places),
        looked_at=len(read),
        by_people=len(changed),
        not_all_pulls=found.not_all_pulls,
        not_all_commits=found.not_all_commits,
    )
