"""Without webhooks: `capuchin worker --poll`, and the action that works on one issue."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bot.data.run import RunStatus
from capuchin_demo.hub.state import Issue
from tests.e2e import shop
from tests.e2e.failures.worker_process import worker_environment
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


async def test_two_workers_look_at_the_cost_of_one(start_bot: StartBot) -> None:
    """GitHub's ETags are good for the token that asked: with one look each, none would be."""
    async with start_bot(missed_seconds=OFTEN) as bot:
        for number in range(4):
            bot.add_repo(f"acme/shop{number}")
        async with bot.working(find_missed=True), bot.again().working(find_missed=True):
            await bot.until(lambda: len(bot.hub.requests) > 80)
            await bot.until(lambda: _is_quiet(bot))
            asked = len(bot.hub.requests)
            await bot.until(lambda: len(bot.hub.requests) > asked + 50)
            later = bot.hub.requests[asked:]
        assert {each.status for each in later if not each.path.startswith("/app")} == {304}


ACTION = Path(__file__).parents[3] / "action.yml"


async def _run_action(bot: BotHarness, issue: Issue) -> tuple[int, str]:
    """The action's last step, by the shell, with what its earlier steps leave behind."""
    step = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"][-1]
    env = worker_environment(bot.settings) | {
        "ISSUE": f"{bot.hub.url}/{issue.html_path}",
        "CAPUCHIN": f"{Path(sys.executable).parent}/capuchin",
    }
    assert set(step["env"]) <= set(env) | {"CAPUCHIN_REDIS_URL"}
    process = await asyncio.create_subprocess_exec(
        "bash", "-e", "-o", "pipefail", "-c", step["run"], env=env, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, err.decode()


async def test_the_action_turns_a_labelled_issue_into_a_pull_request_without_webhooks(
    one_sample_bot: BotHarness,
) -> None:
    bot = one_sample_bot
    issue = await bot.report_issue(bot.add_repo(config=shop.ONE_SAMPLE))
    async with bot.without_webhooks():
        code, err = await _run_action(bot, issue)
        assert (code, issue.repo.pulls) == (1, [])
        assert "'capuchin'" in err
        await bot.label(issue)
        code, err = await _run_action(bot, issue)
    assert code == 0, err
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert "opened pull request. " in err
    assert (len(issue.repo.pulls), len(bot.comments_of(issue))) == (1, 1)
