"""Two workers at once, and a run that is longer than the life of a token."""

from __future__ import annotations

import asyncio

from bot.data.run import RunStatus
from tests.e2e.harness import SECONDS, BotHarness
from tests.support.settling import settle

ISSUES = 3


async def test_two_workers_never_have_the_same_run(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issues = [await bot.report_issue(repo) for _ in range(ISSUES)]
    for issue in issues:
        await bot.label(issue)
    async with asyncio.TaskGroup() as both:
        for _ in range(2):
            worker = bot.parts.build_worker(find_missed=False)
            both.create_task(settle(worker, bot.settings, 4 * SECONDS))
    fixes = sorted((pull.body or "").count("Fixes #") for pull in repo.pulls)
    assert (len(bot.runner.jobs), fixes) == (ISSUES, [1] * ISSUES)
    for issue in issues:
        assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
        assert (len(bot.comments_of(issue)), issue.labels) == (1, [])


async def test_a_token_that_expires_on_the_way_is_renewed(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    bot.runner.go_on.clear()
    async with bot.working():
        await bot.label(issue)
        await bot.until(lambda: bot.runner.waiting)
        bot.hub.expire_tokens()
        bot.runner.go_on.set()
        await bot.until(lambda: repo.pulls)
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert (len(repo.pulls), len(bot.comments_of(issue)), issue.labels) == (1, 1, [])
