"""The verb `stats`: the results of our work in a repository.

Our records show how runs ended and what they cost; GitHub shows what happened to pull requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from bot.commands.command import CommandContext
from bot.commands.reverts import find_reverted
from bot.comments import stats as replies
from bot.git.commits import BRANCH_PREFIX
from bot.github.models import CommitFacts, PullRequestFacts
from bot.github.repository import Identity, Repository
from bot.queue.consumer import RetryLater
from bot.storage.history import HISTORY_DAYS, RunHistoryEntry
from bot.types import Mode, now
from pipeline.concurrency import gather_bounded

DEFAULT_DAYS: Final = 90
MAX_LOOKUPS: Final = 20
"""How many pull requests that only our records list are fetched one by one: the latest."""
MAX_READ: Final = 20
"""How many merged pull requests have their commits read: the latest."""
MAX_BASES: Final = 2
CONCURRENCY: Final = 5
"""Parallel requests to GitHub: a command must end within `bot.storage.requests.CLAIM_SECONDS`."""


async def show_stats(ctx: CommandContext) -> RetryLater | None:
    """Reply with merged, closed and reverted pull requests, the ends of runs, and the cost."""
    days = _parse_days(ctx)
    if days is None:
        text = replies.how_many_days(ctx.settings.app_name, HISTORY_DAYS)
    else:
        text = replies.render_stats(await _load_stats(ctx, days))
    await ctx.reply(text)
    return None


def _parse_days(ctx: CommandContext) -> int | None:
    command = ctx.request.command
    if not command.words:
        return DEFAULT_DAYS
    days = command.numbers[0] if command.numbers else 0
    return days if 1 <= days <= HISTORY_DAYS else None


async def _load_stats(ctx: CommandContext, days: int) -> replies.Stats:
    repo = ctx.request.repo
    since = now() - timedelta(days=days)
    ended, begins = await ctx.queue.storage.history.load(repo, since)
    fixes = [one for one in ended if one.mode in (Mode.FIX, Mode.AUTO)]
    return replies.Stats(
        days=days,
        since=since,
        begins=begins,
        runs=Counter(one.status for one in fixes),
        others=len(ended) - len(fixes),
        dollars=sum(one.dollars for one in ended),
        pulls=await _count_pulls(ctx.repo, ended, since),
    )


async def _count_pulls(
    repo: Repository, ended: Sequence[RunHistoryEntry], since: datetime
) -> replies.PullCounts:
    every, more = await repo.pulls.list_since(since)
    if more:
        every += await _load_unlisted_pulls(repo, ended, {one.number for one in every})
    ours = [one for one in every if _is_ours(one, repo.identity)]
    merged = [one for one in ours if one.merged_at is not None]
    open_ = sum(one.state == "open" for one in ours)
    commits, too_many = await _load_commits(repo, merged)
    back = find_reverted(repo.ref.full_name, every, commits)
    place = {one.pull: one.candidate for one in ended if one.pull and one.candidate}
    places = [place.get(one.number, 0) for one in merged]
    read = merged[:MAX_READ]
    branches = await gather_bounded(
        CONCURRENCY, (repo.pulls.list_commits(one.number) for one in read)
    )
    return replies.PullCounts(
        open=open_,
        merged=len(merged),
        closed=len(ours) - len(merged) - open_,
        reverted=sum(one.number in back for one in merged),
        recorded=sum(one > 0 for one in places),
        first_choice=sum(one == 1 for one in places),
        swapped=sum(one > 1 for one in places),
        looked_at=len(read),
        by_people=sum(_has_foreign_commits(one, repo.identity) for one in branches),
        not_all_pulls=more,
        not_all_commits=too_many,
    )


async def _load_unlisted_pulls(
    repo: Repository, ended: Iterable[RunHistoryEntry], seen: set[int]
) -> list[PullRequestFacts]:
    """Pull requests of our runs that the list did not reach, newest first."""
    numbers = {one.pull for one in ended if one.pull and one.candidate} - seen
    latest = sorted(numbers, reverse=True)[:MAX_LOOKUPS]
    asked = await gather_bounded(CONCURRENCY, (repo.pulls.get(number) for number in latest))
    return [one for one in asked if one is not None]


async def _load_commits(
    repo: Repository, merged: Sequence[PullRequestFacts]
) -> tuple[list[CommitFacts], bool]:
    """Commits since the first merge on the base branches; and whether some are missing."""
    found: list[CommitFacts] = []
    bases: dict[str, datetime] = {}
    for one in merged:
        if one.merged_at is not None:
            bases[one.base_branch] = min(one.merged_at, bases.get(one.base_branch, one.merged_at))
    too_many = len(bases) > MAX_BASES
    for base, moment in list(bases.items())[:MAX_BASES]:
        listed, more = await repo.list_commits(base, moment)
        found += listed
        too_many = too_many or more
    return found, too_many


def _is_ours(pull: PullRequestFacts, us: Identity) -> bool:
    """Whether this is one of our fixes; settings proposals do not count."""
    own = pull.author.lower() == us.login.lower()
    return own and pull.head_branch.startswith(f"{BRANCH_PREFIX}issue-")


def _has_foreign_commits(commits: Iterable[CommitFacts], us: Identity) -> bool:
    """Whether people changed the branch; merging its base into it is no change."""
    return any(
        len(one.parents) < 2
        and one.author_type != "Bot"
        and one.author_email.lower() != us.email.lower()
        for one in commits
    )
