"""The verb `stats`, and the monthly summary.

Our records show how runs ended and what they cost; GitHub shows what happened to pull requests.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bot.admission.repository_settings import read_config
from bot.commands.command import CommandContext
from bot.comments import statistics
from bot.comments.replies import Reply
from bot.data.run import Mode, RepoRef, now
from bot.errors import RunFailed, Unprocessable, translate_errors
from bot.github.app import GitHubApp
from bot.github.repository import Repository
from bot.outcomes import find_changed, find_pulls, load_decided_edits
from bot.repo_config.model import LayerProblem
from bot.safe_text import make_marker
from bot.storage.history import HISTORY_DAYS, History, RunHistoryEntry
from bot.storage.storage import Storage
from pipeline.codebase.text import pluralize


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
    text = statistics.render_stats(await load_stats(ctx.repo, history, period, since))
    decided = await load_decided_edits(ctx.repo, history)
    curve = statistics.render_curve([(edit.confidence, edit.right) for edit in decided])
    return f"{text}\n\n{curve}" if curve else text


async def load_stats(
    repo: Repository,
    history: History,
    period: str,
    since: datetime,
    until: datetime | None = None,
) -> statistics.Stats:
    """The results from `since` until `until`; `period` names this time in a sentence.

    Raises GitHubError and redis-py's errors.
    """
    ended, begins = await history.load(repo.ref, since, until)
    fixes = [one for one in ended if one.mode in (Mode.FIX, Mode.AUTO)]
    return statistics.Stats(
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
) -> statistics.PullCounts:
    known = {one.pull for one in ended if one.pull and one.candidate}
    found = await find_pulls(repo, known, since, until)
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


logger = logging.getLogger(__name__)


class Month(NamedTuple):
    """A calendar month (UTC)."""

    begins: datetime
    ends: datetime

    @property
    def name(self) -> str:
        """Such as `October 2026`."""
        return f"{self.begins:%B %Y}"

    @property
    def key(self) -> str:
        """Such as `2026-10`."""
        return f"{self.begins:%Y-%m}"


def last_month(at: datetime) -> Month:
    ends = at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return Month((ends - timedelta(days=1)).replace(day=1), ends)


async def write_summaries(github: GitHubApp, storage: Storage) -> None:
    """Write last month's summary in repositories with runs and `monthly_summary: true`.

    A repository without runs in that month costs no call to GitHub; the settings of the others are
    read again after a day. Raises redis-py's errors.

    Raises:
        TryLater: GitHub does not answer.
    """
    month = last_month(now())
    with translate_errors():
        async for ref in github.list_repositories():
            if not await storage.turns.is_summary_due(ref, month.key):
                continue
            if not (await storage.history.load(ref, month.begins, month.ends)).entries:
                continue
            written = await _write_summary(github, storage, ref, month)
            await storage.turns.mark_summary(ref, month.key, written=written)


async def _write_summary(github: GitHubApp, storage: Storage, ref: RepoRef, month: Month) -> bool:
    """Write the summary if possible and wanted; return whether it exists."""
    try:
        with translate_errors():
            async with github.open_repository(ref) as repo:
                found = await read_config(repo)
                if isinstance(found, LayerProblem):
                    return False
                if not (found.config.enabled and found.config.monthly_summary):
                    return False
                period = f"in {month.name}"
                stats = await load_stats(repo, storage.history, period, month.begins, month.ends)
                marker = make_marker("summary", f"month={month.key}")
                opened = await repo.issues.open_once(
                    f"Summary of {month.name}",
                    statistics.render_summary(stats, marker),
                    marker,
                    since=month.ends,
                )
    except (RunFailed, Unprocessable) as error:  # the repository is gone, or has no issues
        logger.info("No summary of %s: %s", ref.full_name, error)
        return False
    logger.info("Issue %d of %s has the summary of %s", opened.number, ref.full_name, month.name)
    return True
