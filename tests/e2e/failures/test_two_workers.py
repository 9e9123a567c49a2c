"""Two workers at once, and a run that is longer than the life of a token."""

from __future__ import annotations

import asyncio

from bot.types import RunStatus
from tests.e2e.held_harness import SECONDS, Crew

ISSUES = 3


async def test_two_workers_never_have_the_same_run(crew: Crew) -> None:
    repo = crew.shop()
    issues = [await crew.issue(repo) for _ in range(ISSUES)]
    for issue in issues:
        await crew.label(issue)
    async with asyncio.TaskGroup() as both:
        for _ in range(2):
            both.create_task(crew.worker().settle(4 * SECONDS))
    fixes = sorted((pull.body or "").count("Fixes #") for pull in repo.pulls)
    assert (len(crew.runner.jobs), fixes) == (ISSUES, [1] * ISSUES)
    for issue in issues:
        assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
        assert (len(crew.said(issue)), issue.labels) == (1, [])


async def test_a_token_that_expires_on_the_way_is_renewed(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    crew.runner.go_on.clear()
    async with crew.at_work():
        await crew.label(issue)
        await crew.until(lambda: crew.runner.waiting)
        crew.hub.expire_tokens()
        crew.runner.go_on.set()
        await crew.until(lambda: repo.pulls)
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert (len(repo.pulls), len(crew.said(issue)), issue.labels) == (1, 1, [])
