"""The verb `stats`.

Our records show how runs ended and what they cost; GitHub shows what happened to pull requests.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from bot.commands.command import CommandContext
from bot.comments import statistics
from bot.comments.replies import Reply
from bot.data.run import Mode, now
from bot.github.repository import Repository
from bot.outcomes import find_changed, find_pulls
from bot.storage.history import HISTORY_DAYS, History, RunHistoryEntry
from prompts.text import pluralize


async def show_stats(ctx: CommandContext) -> str:
    """Reply with merged, closed and reverted pull requests, the ends of runs, and the cost."""
    command, days = ctx.request.command, 90
    if command.words:
        days = command.numbers[0] if command.numbers else 0
    if not 1 <= days <= HISTORY_DAYS:
        return Reply.HOW_MANY_DAYS.format(name=ctx.settings.app_name, most=HISTORY_DAYS)
    since = now() - timedelta(days=days)
    period = "in the last 24 hours" if days == 1 else f"in the last {pluralize(days, 'day')}"
    history = ctx.queue.storage.history
    return statistics.render_stats(await _load_stats(ctx.repo, history, period, since))


async def _load_stats(
    repo: Repository, history: History, period: str, since: datetime
) -> statistics.Stats:
    """The results from `since` on; `period` names this time in a sentence.

    Raises GitHubError and redis-py's errors.
    """
    ended, begins = await history.load(repo.ref, since)
    fixes = [one for one in ended if one.mode in (Mode.FIX, Mode.AUTO)]
    return statistics.Stats(
        period=period,
        since=since,
        begins=begins,
        runs=Counter(one.status for one in fixes),
        others=len(ended) - len(fixes),
        dollars=sum(one.dollars for one in ended),
        pulls=await _count_pulls(repo, ended, since),
    )


async def _count_pulls(
    repo: Repository, ended: Sequence[RunHistoryEntry], since: datetime
) -> statistics.PullCounts:
    known = {one.pull for one in ended if one.pull and one.candidate}
    found = await find_pulls(repo, known, since)
    ours, merged = found.pulls, found.merged
    open_ = sum(one.state == "open" for one in ours)
    place = {one.pull: one.candidate for one in ended if one.pull and one.candidate}
    places = [place.get(one.number, 0) for one in merged]
    read = merged[:20]  # the latest
    changed = await find_changed(repo, read)
    return statistics.PullCounts(
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
