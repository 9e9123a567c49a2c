"""A GitHub that fails at the worst moment: nothing is made twice, and nobody is let in."""

from __future__ import annotations

import pytest

from bot.github.http import MAX_TRIES
from bot.localhub import Issue
from bot.types import Failure, RunStatus, now
from tests.e2e.held_harness import Crew

PERMISSION = "/repos/acme/shop/collaborators/*/permission"


async def test_a_502_after_the_pull_request_was_created(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    crew.hub.faults.fail_next("POST", "/repos/acme/shop/pulls", status=502, after_effect=True)
    await crew.label(issue)
    await crew.settle()
    assert crew.hub.faults.pending == []
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert (len(repo.pulls), len(repo.list_branches())) == (1, 2)
    (said,) = crew.said(issue)
    assert "I opened #2" in said


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_github_that_cannot_say_who_may_lets_nobody_in_and_nothing_is_lost(
    crew: Crew, status: int
) -> None:
    """By a label, as every run: it waits, unsaid; asked again, GitHub knows."""
    may, may_not = await crew.issue(crew.shop()), await crew.issue(crew.shop("acme/other"))
    crew.hub.faults.fail_next("GET", PERMISSION, status=status, times=MAX_TRIES)
    crew.hub.faults.fail_next(
        "GET", PERMISSION.replace("shop", "other"), status=status, times=MAX_TRIES
    )
    async with crew.at_work():
        await crew.label(may)
        await crew.label(may_not, by="mallory")
        for issue in (may, may_not):
            await crew.until(lambda issue=issue: waits(crew, issue))
            assert (crew.said(issue), issue.reactions) == ([], [])
        assert (crew.runner.jobs, may.labels, may_not.labels) == ([], ["capuchin"], ["capuchin"])
        for issue in (may, may_not):
            await crew.runs.bring_forward(await crew.run_of(issue), now())
    assert (await crew.run_of(may)).status is RunStatus.OPENED_PULL_REQUEST
    assert (await crew.run_of(may_not)).status is RunStatus.REFUSED
    assert [said.partition(".")[0] for said in crew.said(may_not)] == ["Thank you, @mallory"]


async def test_a_command_waits_for_a_github_that_can_say_who_may(crew: Crew) -> None:
    repo = crew.shop()
    issues = {login: await crew.issue(repo) for login in ("alice", "mallory")}
    crew.hub.faults.fail_next("GET", PERMISSION, times=2 * MAX_TRIES)
    async with crew.at_work():
        for login, issue in issues.items():
            await crew.say(issue, "/capuchin fix", by=login)
        await crew.until(lambda: not crew.hub.faults.pending)
        assert await crew.inbox.count() == 2
        assert crew.runner.jobs == []
        assert [crew.said(issue) for issue in issues.values()] == [[], []]
        await crew.until(lambda: come_up(crew))
    assert [len(repo.pulls), len(crew.runner.jobs)] == [1, 1]
    assert "I opened #3" in crew.said(issues["alice"])[0]
    assert crew.said(issues["mallory"])[0].startswith("Thank you, @mallory")


async def waits(crew: Crew, issue: Issue) -> bool:
    run = await crew.run_of(issue)
    return run.waiting_for is Failure.GITHUB_UNAVAILABLE and run.not_before is not None


async def come_up(crew: Crew) -> bool:
    """What waits to be tried again is due now; whether nothing is left."""
    key = crew.storage.keys.requests
    for order in await crew.redis.zrange(key, 0, -1):
        await crew.redis.zadd(key, {order: 0}, xx=True)
    return not await crew.inbox.count()
