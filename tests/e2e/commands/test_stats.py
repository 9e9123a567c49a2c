"""`/capuchin stats` and the monthly summary."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest

from bot.commands.report import last_month
from bot.data.run import RepoRef, RunStatus, now
from bot.github import http, pulls, repository
from capuchin_demo.hub.state import Issue, Pull, Repo
from pipeline.data.types import NoFix
from tests.e2e.harness import BotHarness, StartBot
from tests.support.data.publishing import SHOP, a_selection, selection_of_three
from tests.support.hub import ref_of

CONFIG = "draft: false\nstale_days: 0\n"


async def asked(bot: BotHarness, repo: Repo) -> Issue:
    issue = await bot.report_issue(repo)
    await bot.ask_by_label(issue)
    return issue


async def stats(bot: BotHarness, issue: Issue, words: str = "") -> str:
    await bot.say(issue, f"/capuchin stats{words}")
    return bot.comments_of(issue)[-1]


async def decided(bot: BotHarness, repo: Repo) -> None:
    """Of four pull requests one is left open."""
    first, swapped, closed, _ = repo.pulls
    await bot.hub.commit(repo, first.head_ref, {"why.md": "It adds.\n"}, "Say why", "alice")
    sha = await bot.hub.merge(swapped, "alice", squash=True)
    said = f'Revert "Fix total()"\n\nThis reverts commit {sha}.'
    await bot.hub.commit(repo, "main", {"shop.py": SHOP.decode()}, said, "alice")
    await bot.hub.merge(first, "alice")
    await bot.hub.close_issue(closed, "alice")


async def test_what_came_of_it_is_reported_with_what_it_cost(start_bot: StartBot) -> None:
    async with start_bot(reverify_seconds=0) as bot:
        repo = bot.add_repo(config=CONFIG)
        await asked(bot, repo)
        bot.runner.answer = selection_of_three()
        second = await asked(bot, repo)
        await bot.say(second, "/capuchin use B")
        assert (await bot.run_of(second)).status is RunStatus.SWAPPED
        bot.runner.answer = a_selection()
        await asked(bot, repo)
        await asked(bot, repo)
        bot.runner.answer = NoFix(reason="not sure enough")
        last = await asked(bot, repo)
        await decided(bot, repo)
        assert [type(pull) for pull in repo.pulls] == [Pull] * 4
        await bot.say(last, "/capuchin plan")
        said = await stats(bot, last)
        listed = [line for line in said.splitlines() if line.startswith("- ")]
        assert [line[2] for line in listed] == ["4", "1", "2", "1", "1"], said
        assert "reverted" in listed[2]
        chart = said.partition("```mermaid\npie showData\n")[2].partition("```")[0]
        assert chart.count(" : 1\n") == 5
        assert "$0.07" in said, "five fixes and a plan, 0.0123 each"
        assert "$0.04" in said, "for each merged one"


async def test_where_nothing_was_done_it_says_so_and_no_days_are_asked_back(
    bot: BotHarness,
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    assert "\n- " not in await stats(bot, issue, " 30")
    for wrong in (" 0", " 366", " all", " -3"):
        assert "365" in await stats(bot, issue, wrong)
    await bot.say(issue, "/capuchin stats", by="mallory")
    assert "@mallory" in bot.comments_of(issue)[-1]


async def test_of_more_than_it_reads_it_asks_for_its_own_and_says_so(
    bot: BotHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = bot.add_repo(config=CONFIG)
    issue = await asked(bot, repo)
    for number in range(2):
        await bot.hub.commit(repo, f"work-{number}", {"x.py": "x = 1\n"}, "Work", "alice")
        await bot.hub.open_pull(repo, f"work-{number}", "Work", "alice")
    await bot.hub.merge(repo.pulls[0], "alice")
    for number in range(2):
        await bot.hub.commit(repo, "main", {"x.py": f"x = {number}\n"}, "More work", "alice")
    for module in (http, pulls, repository):
        monkeypatch.setattr(module, "PER_PAGE", 2)
    monkeypatch.setattr(pulls, "LISTED_PAGES", 1)
    monkeypatch.setattr(repository, "HISTORY_PAGES", 1)
    said = await stats(bot, issue)
    listed = [line[2:4] for line in said.splitlines() if line.startswith("- ")]
    assert listed[-3:] == ["1 ", "0 ", "0 "], "merged, closed, open"
    assert len(said.split("\n\n")) > 4, "it names what it did not look at"


WANTED = "draft: false\nstale_days: 0\nmonthly_summary: true\n"


async def work(bot: BotHarness, repo: Repo) -> None:
    """One pull request, one run without a fix: both a month ago."""
    for answer in (a_selection(), NoFix(reason="not sure enough")):
        bot.runner.answer = answer
        await bot.ask_by_label(await bot.report_issue(repo))
    month = last_month(now())
    for pull in repo.pulls:
        pull.created_at = month.begins + timedelta(days=3)
    await age(bot, ref_of(repo))


async def age(bot: BotHarness, ref: RepoRef) -> None:
    """Let the ends of the runs lie in the last month."""
    key = bot.storage.keys.of_repository("history", ref)
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
