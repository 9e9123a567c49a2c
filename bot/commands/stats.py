"""The verb that tells what came of our work in a repository.

How runs ended and what they cost is in our records, what became of pull requests on GitHub.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from bot.commands.command import Bench
from bot.commands.reverts import reverted
from bot.comments import stats as replies
from bot.git.commits import BRANCHES
from bot.github.models import CommitFacts, PullRequestFacts
from bot.github.repository import Identity, Repository
from bot.queue.consumer import Later
from bot.storage.history import OUTCOME_DAYS, Ended, known
from bot.types import Mode, now
from pipeline.concurrency import bounded

USUAL_DAYS: Final = 90
MOST_ASKED: Final = 20
"""Pull requests that are in our records only are asked for one by one: the latest."""
MOST_READ: Final = 20
"""Of merged pull requests whose commits are read: the latest."""
MOST_BASES: Final = 2
AT_ONCE: Final = 5
"""Questions to GitHub: a command is to be over within `bot.queue.inbox.MINE_SECONDS`."""


async def stats(bench: Bench) -> Later | None:
    """Merged, closed and reverted, how runs ended, and what all that cost."""
    days = _days(bench)
    if days is None:
        text = replies.how_many_days(bench.settings.app_name, OUTCOME_DAYS)
    else:
        text = replies.told(await _counted(bench, days))
    await bench.reply(text)
    return None


def _days(bench: Bench) -> int | None:
    command = bench.order.command
    if not command.words:
        return USUAL_DAYS
    days = command.numbers[0] if command.numbers else 0
    return days if 1 <= days <= OUTCOME_DAYS else None


async def _counted(bench: Bench, days: int) -> replies.Stats:
    runs, repo = bench.office.runs, bench.order.repo
    since = now() - timedelta(days=days)
    ended, begins = await known(runs.redis, runs.keys, repo, since)
    fixes = [one for one in ended if one.mode in (Mode.FIX, Mode.AUTO)]
    return replies.Stats(
        days=days,
        since=since,
        begins=begins,
        runs=Counter(one.status for one in fixes),
        others=len(ended) - len(fixes),
        dollars=sum(one.dollars for one in ended),
        pulls=await _pulls(bench.repo, ended, since),
    )


async def _pulls(repo: Repository, ended: Sequence[Ended], since: datetime) -> replies.Pulls:
    every, more = await repo.pulls.since(since)
    if more:
        every += await _others(repo, ended, {one.number for one in every})
    ours = [one for one in every if _is_ours(one, repo.identity)]
    merged = [one for one in ours if one.merged_at is not None]
    open_ = sum(one.state == "open" for one in ours)
    commits, too_many = await _after(repo, merged)
    back = reverted(repo.ref.full_name, every, commits)
    place = {one.pull: one.candidate for one in ended if one.pull and one.candidate}
    places = [place.get(one.number, 0) for one in merged]
    read = merged[:MOST_READ]
    branches = await bounded(AT_ONCE, (repo.pulls.commits(one.number) for one in read))
    return replies.Pulls(
        open=open_,
        merged=len(merged),
        closed=len(ours) - len(merged) - open_,
        reverted=sum(one.number in back for one in merged),
        recorded=sum(one > 0 for one in places),
        first_choice=sum(one == 1 for one in places),
        swapped=sum(one > 1 for one in places),
        looked_at=len(read),
        by_people=sum(_by_people(one, repo.identity) for one in branches),
        not_all_pulls=more,
        not_all_commits=too_many,
    )


async def _others(
    repo: Repository, ended: Iterable[Ended], seen: set[int]
) -> list[PullRequestFacts]:
    """Pull requests that runs opened and that no list reached, newest first."""
    numbers = {one.pull for one in ended if one.pull and one.candidate} - seen
    latest = sorted(numbers, reverse=True)[:MOST_ASKED]
    asked = await bounded(AT_ONCE, (repo.pulls.get(number) for number in latest))
    return [one for one in asked if one is not None]


async def _after(
    repo: Repository, merged: Sequence[PullRequestFacts]
) -> tuple[list[CommitFacts], bool]:
    """Commits since the first merge, on all branches that were merged into."""
    found: list[CommitFacts] = []
    bases: dict[str, datetime] = {}
    for one in merged:
        if one.merged_at is not None:
            bases[one.base_branch] = min(one.merged_at, bases.get(one.base_branch, one.merged_at))
    too_many = len(bases) > MOST_BASES
    for base, moment in list(bases.items())[:MOST_BASES]:
        listed, more = await repo.history(base, moment)
        found += listed
        too_many = too_many or more
    return found, too_many


def _is_ours(pull: PullRequestFacts, us: Identity) -> bool:
    """A fix: what proposes a file of settings is none."""
    own = pull.author.lower() == us.login.lower()
    return own and pull.head_branch.startswith(f"{BRANCHES}issue-")


def _by_people(commits: Iterable[CommitFacts], us: Identity) -> bool:
    """Whether people changed it; bringing the branch up to date with its base is no change."""
    return any(
        len(one.parents) < 2
        and one.author_type != "Bot"
        and one.author_email.lower() != us.email.lower()
        for one in commits
    )
