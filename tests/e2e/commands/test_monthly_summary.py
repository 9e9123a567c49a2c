"""The monthly summary: where it is wanted, once, and only of what the month held."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from bot.commands.report import last_month
from bot.data.run import RepoRef, now
from capuchin_demo.hub.state import Issue, Repo
from pipeline.data.types import NoFix
from tests.e2e.harness import BotHarness, StartBot
from tests.support.data.publishing import a_selection
from tests.support.hub import ref_of

WANTED = "draft: false\nstale_days: 0\nmonthly_summary: true\n"


async def work(bot: BotHarness, repo: Repo) -> None:
    """One pull request, one run without a fix: both a month ago."""
    for answer in (a_selection(), NoFix(reason="not sure enough")):
        bot.runner.answer = answer
        await bot.label(await bot.report_issue(repo))
        await bot.settle()
    month = last_month(now())
    for pull in repo.pulls:
        pull.created_at = month.begins + timedelta(days=3)
    await age(bot, ref_of(repo))


async def age(bot: BotHarness, ref: RepoRef) -> None:
    """Let the ends of the runs lie in the last month."""
    key = bot.storage.keys.history(ref)
    at = (last_month(now()).begins + timedelta(days=3)).timestamp()
    for line in cast("list[bytes]", await bot.redis.zrange(key, 0, -1)):
        await bot.redis.zadd(key, {line: at})


def summaries(bot: BotHarness, repo: Repo) -> list[Issue]:
    return [issue for issue in repo.issues.values() if issue.author is bot.hub.bot
            and issue.title.startswith("Summary of ")]  # fmt: skip


async def test_the_last_month_is_summed_up_once_where_it_is_wanted(start_bot: StartBot) -> None:
    async with start_bot() as bot:
        repo, other = bot.add_repo(config=WANTED), bot.add_repo("acme/other")
        await work(bot, repo)
        await work(bot, other)
        await bot.redis.delete(bot.storage.keys.turn("summaries"))
        async with bot.working():
            await bot.until(lambda: summaries(bot, repo))
        (issue,) = summaries(bot, repo)
        month = last_month(now()).name
        assert issue.title == f"Summary of {month}"
        assert month in (issue.body or "")
        assert (issue.body or "").count("\n- 1 ") == 3
        assert " : 1\n```" in (issue.body or "")
        assert summaries(bot, other) == []
        await bot.redis.delete(bot.storage.keys.turn("summaries"))
        await bot.redis.delete(bot.storage.keys.summary(ref_of(repo), last_month(now()).key))
        summarize = bot.parts.sweep_actions.summarize
        assert summarize is not None
        await summarize(bot.storage)
        assert len(summaries(bot, repo)) == 1, "also where the record of it is lost"
