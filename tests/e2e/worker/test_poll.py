"""Without webhooks: a worker asks GitHub, and an answer that has not changed costs nothing."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from bot.data.run import RunStatus
from tests.e2e.harness import BotHarness, StartBot

OFTEN = 0.2
"""Seconds between two looks."""


async def _is_quiet(bot: BotHarness) -> bool:
    """Whether no run is left, and GitHub answered "unchanged" to the last ten that it counts."""
    if not await bot.is_idle():
        return False
    counted = [each for each in bot.hub.requests if not each.path.startswith("/app")]
    return all(each.status == 304 for each in counted[-10:])


async def test_a_label_and_a_command_are_heard_once_and_quiet_looks_cost_no_calls(
    start_bot: StartBot, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="bot")
    async with start_bot(missed_seconds=OFTEN) as bot:
        bot.parts = replace(bot.parts, polls=True)
        issue = await bot.report_issue(bot.add_repo())
        async with bot.without_webhooks():
            await bot.label(issue)
            async with bot.working(find_missed=True):
                await bot.until(lambda: issue.repo.pulls)
                await bot.hub.comment(issue, "/capuchin help", "alice")
                await bot.until(lambda: len(bot.comments_of(issue)) == 2)
                await bot.until(lambda: _is_quiet(bot))
                left, asked = bot.hub.limit.remaining, len(bot.hub.requests)
                await bot.until(lambda: len(bot.hub.requests) > asked + 8)
                assert bot.hub.limit.remaining >= left - 1  # one may be under way
        late = [d for d in bot.hub.deliveries if d.event in ("issues", "issue_comment")]
        for delivery in late:  # webhooks as well as questions: nothing is done twice
            await bot.hub.redeliver(delivery)
        await bot.settle()
        assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
        assert (len(issue.repo.pulls), len(bot.comments_of(issue))) == (1, 2)
    assert "found by asking GitHub" in caplog.text
    assert "its webhook never arrived" not in caplog.text
