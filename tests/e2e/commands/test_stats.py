"""What the bot reports about its work in a repository, from its records and from GitHub."""

from __future__ import annotations

import pytest

from bot.data.run import RunStatus
from bot.github import http, pulls, repository
from capuchin_demo.hub.state import Issue, Pull, Repo
from pipeline.data.types import NoFix
from tests.e2e.harness import BotHarness, StartBot
from tests.support.data.publishing import SHOP, a_selection, selection_of_three

CONFIG = "draft: false\nstale_days: 0\n"


async def asked(bot: BotHarness, repo: Repo) -> Issue:
    issue = await bot.report_issue(repo)
    await bot.label(issue)
    await bot.settle()
    return issue


async def stats(bot: BotHarness, issue: Issue, words: str = "") -> str:
    await bot.comment(issue, f"/capuchin stats{words}")
    await bot.settle()
    return bot.comments_of(issue)[-1]


async def decided(bot: BotHarness, repo: Repo) -> None:
    """Of four pull requests one is left open."""
    first, swapped, closed, _ = repo.pulls
    await bot.hub.commit(repo, first.head_ref, {"why.md": "It adds.\n"}, "Say why", "alice")
    sha = await bot.hub.merge(swapped, "alice")
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
        await bot.comment(second, "/capuchin use B")
        await bot.settle()
        assert (await bot.run_of(second)).status is RunStatus.SWAPPED
        bot.runner.answer = a_selection()
        await asked(bot, repo)
        await asked(bot, repo)
        bot.runner.answer = NoFix(reason="not sure enough")
        last = await asked(bot, repo)
        await decided(bot, repo)
        assert [type(pull) for pull in repo.pulls] == [Pull] * 4
        await bot.comment(last, "/capuchin plan")
        await bot.settle()
        said = await stats(bot, last)
        assert "the last 90 days.** My records of runs begin on " in said
        assert (
            "Of 5 runs that were to fix an issue:\n\n- 4 opened a pull request\n- 1 opened" in said
        )
        assert (
            "Of my 4 pull requests:\n\n- 2 merged, 1 of them reverted since\n"
            "- 1 closed without a merge\n- 1 open"
        ) in said
        assert (
            "Of the merged ones, 1 held my first choice, 1 held another of my edits (`use`)."
            in said
        )
        assert "Of the 2 merged ones, 1 had commits by other people." in said
        assert (
            "```mermaid\npie showData\n    accTitle: Results of my work\n    title Results\n"
            '    "merged" : 1\n    "merged, then reverted" : 1\n    "closed without a merge" : 1\n'
            '    "open" : 1\n    "no fix found" : 1\n```'
        ) in said
        assert "this cost $0.07 at list prices" in said, "five fixes and a plan, 0.0123 each"
        assert "including 2 other runs (plans, follow-ups): $0.04 for each merged one." in said


async def test_where_nothing_was_done_it_says_so_and_no_days_are_asked_back(
    bot: BotHarness,
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    assert "I have no records of runs in this repository." in await stats(bot, issue, " 30")
    assert "I opened no pull requests here in that time." in bot.comments_of(issue)[-1]
    for wrong in (" 0", " 366", " all", " -3"):
        assert "a number of days from 1 to 365" in await stats(bot, issue, wrong)
    await bot.comment(issue, "/capuchin stats", by="mallory")
    await bot.settle()
    assert bot.comments_of(issue)[-1].startswith("Thank you, @mallory. I only work for people")


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
    assert "Of my 1 pull request:\n\n- 1 merged\n" in said
    assert "I looked only at those older pull requests that are in my records" in said
    assert "I searched only the latest commits for reverts" in said
