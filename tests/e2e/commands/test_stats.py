"""`/capuchin stats`."""

import pytest

from bot.data.run import RunStatus
from bot.github import http, pulls, repository
from capuchin_demo.hub.state import Issue, Pull, Repo
from pipeline.data.types import NoFix
from tests.e2e.harness import BotHarness
from tests.support.data.publishing import SHOP, a_selection, selection_of_three

CONFIG = "draft: false\n"


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


@pytest.mark.settings(reverify_seconds=0)
async def test_what_came_of_it_is_reported_with_what_it_cost(bot: BotHarness) -> None:
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
