"""Whether somebody works on the issue already, and how to go on all the same."""

import pytest

from bot.data.run import RunStatus
from capuchin_demo.hub.pull_actions import NewPull, open_pull
from capuchin_demo.hub.state import Issue, Repo
from tests.e2e.harness import BotHarness

AGAIN = "add the label again or write `/capuchin fix anyway`"


async def pull_by(bot: BotHarness, repo: Repo, body: str, *, author: str = "bob") -> None:
    """Somebody's open pull request."""
    await bot.hub.commit(repo, "work", {"x.py": "x = 1\n"}, "Work", author)
    asked = NewPull("Some work", body, "work", "main")
    await open_pull(bot.hub, repo, asked, bot.hub.add_user(author))
    await bot.hub.wait_until_delivered()


async def seen(bot: BotHarness, issue: Issue, how: str) -> str:
    """Make it look as if somebody worked on it; what the bot says to it."""
    match how:
        case "assigned":
            await bot.hub.assign(issue, "bob", "alice")
            return "it is assigned to `bob`"
        case "pull":
            await pull_by(bot, issue.repo, f"Fixes #{issue.number}")
            return f"the open pull request #{issue.number + 1} by `bob` says that it fixes this"
        case "url":
            url = f"https://github.com/acme/shop/issues/{issue.number}"
            await pull_by(bot, issue.repo, f"This resolves {url}")
            return f"the open pull request #{issue.number + 1} by `bob` says that it fixes this"
        case _:
            name = f"{issue.number}-total-subtracts"
            await bot.hub.commit(issue.repo, name, {"x.py": "x = 1\n"}, "Work", "bob")
            return f"there are branches named after this issue: `{name}`"


@pytest.mark.parametrize(
    ("how", "on"),
    [("assigned", "label"), ("pull", "again"), ("url", "anyway"), ("branch", "label")],
)
async def test_it_asks_first_and_goes_on_when_told_to(bot: BotHarness, how: str, on: str) -> None:
    repo, issue = await bot.add_repo_with_issue()
    words = await seen(bot, issue, how)
    before = len(repo.pulls)
    await bot.ask_by_label(issue)
    (said,) = bot.comments_of(issue)
    assert words in said
    assert AGAIN in said
    assert (await bot.run_of(issue)).status is RunStatus.NEEDS_CONFIRMATION
    assert (bot.runner.jobs, issue.labels) == ([], [])
    if on == "label":
        await bot.label(issue)
    else:
        await bot.comment(issue, "/capuchin fix" + (" anyway" if on == "anyway" else ""))
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert len(repo.pulls) == before + 1


async def test_a_stranger_cannot_confirm(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    await seen(bot, issue, "assigned")
    await bot.ask_by_label(issue)
    await bot.say(issue, "/capuchin fix anyway", by="mallory")
    assert (bot.runner.jobs, repo.pulls) == ([], [])


@pytest.mark.parametrize(
    "body", ["See #1.", "Fixes #12", "Fixes other/shop#1", "prefixes #1", "Fixes: #2"]
)
async def test_a_pull_request_that_only_mentions_it_is_no_sign(bot: BotHarness, body: str) -> None:
    repo, issue = await bot.add_repo_with_issue()
    await pull_by(bot, repo, body)
    await bot.ask_by_label(issue)
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_closed_pull_request_and_being_assigned_oneself_are_no_signs(
    bot: BotHarness,
) -> None:
    repo, issue = await bot.add_repo_with_issue()
    await pull_by(bot, repo, "Fixes #1")
    await bot.hub.close_issue(repo.pulls[0], "bob")
    await bot.hub.assign(issue, "alice", "alice")
    await bot.ask_by_label(issue)
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_locked_issue_is_left_alone_until_somebody_insists(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    issue.locked = True
    await bot.ask_by_label(issue)
    assert (await bot.run_of(issue)).status is RunStatus.NEEDS_CONFIRMATION
    assert (bot.comments_of(issue), repo.pulls) == ([], [])
    await bot.say(issue, "/capuchin fix anyway")
    assert len(repo.pulls) == 1


async def test_our_own_open_pull_request_is_known_as_ours_and_replaced_on_demand(
    bot: BotHarness,
) -> None:
    repo, issue = await bot.add_repo_with_issue()
    for _ in range(2):
        await bot.ask_by_label(issue)
    (first,) = repo.pulls
    said = bot.comments_of(issue)[1]
    assert f"#{first.number}" in said
    assert "`/capuchin retry anyway`" in said
    assert "somebody" not in said
    await bot.say(issue, "/capuchin retry anyway")
    assert [pull.state for pull in repo.pulls] == ["closed", "open"]
    assert f"#{repo.pulls[1].number}" in first.comments[-1].body


async def test_a_dry_run_asks_nobody(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await seen(bot, issue, "assigned")
    await bot.say(issue, "/capuchin plan")
    assert (await bot.run_of(issue)).status is RunStatus.PLANNED
