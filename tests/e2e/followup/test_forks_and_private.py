"""Forks, in both directions, and private repositories: what goes where, and what never does."""

import pytest

from bot.data.run import RunStatus
from capuchin_demo.hub.check_actions import report_check
from tests.e2e.forks import fork_pull
from tests.e2e.harness import BotHarness

THEIRS = {"shop.py": ("100644", "def total(a, b):\n    return a + b + 0\n")}


@pytest.mark.settings(review_seconds=0)
async def test_a_pull_request_from_a_fork_is_never_pushed_to(bot: BotHarness) -> None:
    repo = bot.add_repo()
    pull = await fork_pull(bot.hub, repo, THEIRS)
    before = repo.git.list_refs("")
    await bot.hub.review(pull, "alice", "No.", "CHANGES_REQUESTED", [("shop.py", 2, "Why?")])
    await report_check(bot.hub, pull, "failure")
    await bot.say(pull, "/capuchin fix")
    await bot.say(pull, "/capuchin use B")
    told, other = bot.comments_of(pull)
    assert "#" not in told + other, "none of its pull requests is named"
    assert (bot.runner.tasks, bot.runner.jobs) == ([], [])
    assert repo.git.list_refs("") == before


async def test_a_fork_with_a_branch_of_our_name_is_not_taken_for_ours(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    theirs = await fork_pull(bot.hub, repo, THEIRS, "capuchin/issue-1-total-subtracts")
    await bot.ask_by_label(issue)
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    ours = repo.pulls[-1]
    assert (ours.author, ours.head_ref) == (bot.hub.bot, theirs.head_ref)
    assert (theirs.body, theirs.comments, theirs.labels) == ("", [], [])
    await bot.hub.close_issue(issue, "alice")
    await bot.settle()
    assert (ours.state, theirs.state) == ("closed", "open")


async def test_in_a_fork_all_stays_in_the_fork(bot: BotHarness) -> None:
    upstream = bot.add_repo()
    fork = bot.add_repo("bob/shop")
    issue = await bot.report_issue(fork)
    before = upstream.git.list_refs("")
    await bot.ask_by_label(issue)
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    (pull,) = fork.pulls
    assert pull.base_ref == "main"
    assert upstream.git.list_refs("") == before
    assert [e for e in bot.hub.requests if "acme/shop" in e.path] == []


@pytest.mark.settings(public_url="https://bot.acme.test")
async def test_nothing_of_a_private_repository_shows_in_a_public_one(bot: BotHarness) -> None:
    public = bot.add_repo()
    private = bot.add_repo("acme/hidden", private=True)
    open_issue, secret = await bot.report_issue(public), await bot.report_issue(private)
    async with bot.at_work(bot.label(secret)):
        await bot.label(open_issue)
        await bot.comment(open_issue, "/capuchin status")
        bot.runner.go_on.set()
    run = await bot.run_of(secret)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    shown = [*bot.comments_of(open_issue), *(pull.body or "" for pull in public.pulls)]
    shown += [f"{check.summary} {check.text}" for check in public.check_runs]
    assert len(shown) >= 3
    for text in shown:
        assert "hidden" not in text
        assert run.id not in text
    # Its page opens only with the key in the link, which is on the private issue alone.
    assert f"https://bot.acme.test/runs/{run.id}?key=" in bot.comments_of(secret)[0]
