"""A GitHub that fails at the worst moment: nothing is made twice, and nobody is let in."""

from __future__ import annotations

import pytest

from bot.data.run import Failure, RunStatus, now
from bot.github.http import MAX_TRIES
from capuchin_demo.hub.state import Issue
from tests.e2e.harness import BotHarness

PERMISSION = "/repos/acme/shop/collaborators/*/permission"


async def test_a_502_after_the_pull_request_was_created(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    bot.hub.faults.fail_next("POST", "/repos/acme/shop/pulls", status=502, after_effect=True)
    await bot.label(issue)
    await bot.settle()
    assert bot.hub.faults.pending == []
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert (len(repo.pulls), len(repo.list_branches())) == (1, 2)
    (said,) = bot.comments_of(issue)
    assert "I opened #2" in said


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_github_that_cannot_say_who_may_lets_nobody_in_and_nothing_is_lost(
    bot: BotHarness, status: int
) -> None:
    """By a label, as every run: it waits, unsaid; asked again, GitHub knows."""
    may, may_not = (
        await bot.report_issue(bot.add_repo()),
        await bot.report_issue(bot.add_repo("acme/other")),
    )
    bot.hub.faults.fail_next("GET", PERMISSION, status=status, times=MAX_TRIES)
    bot.hub.faults.fail_next(
        "GET", PERMISSION.replace("shop", "other"), status=status, times=MAX_TRIES
    )
    async with bot.working():
        await bot.label(may)
        await bot.label(may_not, by="mallory")
        for issue in (may, may_not):
            await bot.until(lambda issue=issue: waits(bot, issue))
            assert (bot.comments_of(issue), issue.reactions) == ([], [])
        assert (bot.runner.jobs, may.labels, may_not.labels) == ([], ["capuchin"], ["capuchin"])
        for issue in (may, may_not):
            await bot.runs.bring_forward(await bot.run_of(issue), now())
    assert (await bot.run_of(may)).status is RunStatus.OPENED_PULL_REQUEST
    assert (await bot.run_of(may_not)).status is RunStatus.REFUSED
    assert [said.partition(".")[0] for said in bot.comments_of(may_not)] == ["Thank you, @mallory"]


async def test_a_command_waits_for_a_github_that_can_say_who_may(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issues = {login: await bot.report_issue(repo) for login in ("alice", "mallory")}
    bot.hub.faults.fail_next("GET", PERMISSION, times=2 * MAX_TRIES)
    async with bot.working():
        for login, issue in issues.items():
            await bot.comment(issue, "/capuchin fix", by=login)
        await bot.until(lambda: not bot.hub.faults.pending)
        assert await bot.inbox.count() == 2
        assert bot.runner.jobs == []
        assert [bot.comments_of(issue) for issue in issues.values()] == [[], []]
        await bot.until(lambda: come_up(bot))
    assert [len(repo.pulls), len(bot.runner.jobs)] == [1, 1]
    assert "I opened #3" in bot.comments_of(issues["alice"])[0]
    assert bot.comments_of(issues["mallory"])[0].startswith("Thank you, @mallory")


async def waits(bot: BotHarness, issue: Issue) -> bool:
    run = await bot.run_of(issue)
    return run.waiting_for is Failure.GITHUB_UNAVAILABLE and run.not_before is not None


async def come_up(bot: BotHarness) -> bool:
    """What waits to be tried again is due now; whether nothing is left."""
    key = bot.storage.keys.requests
    for order in await bot.redis.zrange(key, 0, -1):
        await bot.redis.zadd(key, {order: 0}, xx=True)
    return not await bot.inbox.count()
