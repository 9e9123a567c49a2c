"""Without webhooks: `capuchin worker --poll`, and the action that works on one issue."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import replace as replace_part
from pathlib import Path

import pytest
import yaml

from bot.data.run import RunStatus
from capuchin_demo.hub.check_actions import report_check
from capuchin_demo.recorded.recording import RecordedAnswer
from sandbox.frozen import replace
from tests.e2e import shop
from tests.e2e.failures.worker_process import worker_environment
from tests.e2e.harness import BotHarness, StartBot
from tests.e2e.people import MAINTAINER

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
        bot.parts = replace_part(bot.parts, polls=True)
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


@pytest.mark.settings(missed_seconds=OFTEN)
async def test_two_workers_look_at_the_cost_of_one(bot: BotHarness) -> None:
    """GitHub's ETags are good for the token that asked: with one look each, none would be."""
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


async def _run_action(
    bot: BotHarness,
    address: str,
    *,
    alone: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[int, dict[str, str], str]:
    """The action's last step, by the shell, with what its earlier steps leave behind: its exit
    code, its outputs and its log.

    `alone`: with a Redis that ends with it; `cancelled`: when the job is."""
    step = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"][-1]
    outputs = bot.settings.data_dir / "outputs"
    outputs.parent.mkdir(parents=True, exist_ok=True)
    outputs.write_text("", encoding="ascii")
    settings = replace(bot.settings, redis_url="") if alone else bot.settings
    env = dict.fromkeys(step["env"], "") | worker_environment(settings)
    env |= {
        "ISSUE": f"{bot.hub.url}/{address}",
        "CAPUCHIN": f"{Path(sys.executable).parent}/capuchin",
        "GITHUB_OUTPUT": str(outputs),
    }
    assert set(step["env"]) <= set(env)
    # A shell cannot trap what it was started to ignore, as in a script's background.
    shell = ("env", "--default-signal=INT", "bash", "-e", "-o", "pipefail", "-c", step["run"])
    process = await asyncio.create_subprocess_exec(*shell, env=env, stderr=asyncio.subprocess.PIPE)
    ended = asyncio.create_task(process.communicate())
    if cancelled is not None:
        await bot.until(cancelled)
        process.send_signal(signal.SIGINT)
    _, err = await ended
    assert process.returncode is not None
    lines = outputs.read_text("ascii").splitlines()
    return process.returncode, dict(line.split("=", 1) for line in lines), err.decode()


async def test_the_action_turns_a_labelled_issue_into_a_pull_request_and_offers_no_more(
    one_sample_bot: BotHarness,
) -> None:
    bot = one_sample_bot
    issue = await bot.report_issue(bot.add_repo(config=shop.ONE_SAMPLE))
    async with bot.without_webhooks():
        code, _, err = await _run_action(bot, issue.html_path, alone=True)
        assert (code, issue.repo.pulls) == (1, [])
        assert "'capuchin'" in err
        await bot.label(issue)
        code, outputs, err = await _run_action(bot, issue.html_path, alone=True)
    assert code == 0, err
    (pull,) = issue.repo.pulls
    assert outputs == {
        "outcome": "opened pull request",
        "pull-request": pull.page_url,
        "cost": outputs["cost"],
        "probability": outputs["probability"],
    }
    assert 0 < float(outputs["probability"]) < 1
    assert not pull.draft  # nobody would look again once its checks have passed
    (said,) = bot.comments_of(issue)
    assert "I will revise" not in f"{pull.body}"
    assert "/capuchin" not in f"{said}{pull.body}"


async def test_a_cancelled_job_says_on_the_issue_that_it_stopped(
    start_recorded_bot: StartBot,
) -> None:
    slow = RecordedAnswer(call="testing", turn=0, reply=shop.SCRIPT, delay=300)
    async with start_recorded_bot(shop.answers(slow)) as bot:
        issue = await bot.report_issue(bot.add_repo(config=shop.ONE_SAMPLE))
        async with bot.without_webhooks():
            await bot.label(issue)
            asked = lambda: any(one.call.startswith("testing") for one in bot.llm.requests)  # noqa: E731
            code, outputs, _ = await _run_action(bot, issue.html_path, cancelled=asked, alone=True)
        assert (code, outputs["outcome"], issue.labels) == (1, "stopped", [])
        (said,) = bot.comments_of(issue)
        assert "I stopped" in said


async def test_with_a_redis_that_lasts_a_later_job_goes_on(one_sample_bot: BotHarness) -> None:
    """An edit that waits for approval, a command, and a draft whose checks pass."""
    bot = one_sample_bot
    repo, issue = await bot.add_repo_with_issue(config=f"{shop.ONE_SAMPLE}publish: approval\n")
    async with bot.without_webhooks():
        await bot.label(issue)
        code, outputs, err = await _run_action(bot, issue.html_path)
        assert (code, outputs["outcome"]) == (0, "asked back"), err
        asked = len(bot.llm.requests)
        await bot.hub.comment(issue, "/capuchin use A", MAINTAINER)
        code, outputs, err = await _run_action(bot, issue.html_path)
        assert (code, outputs, len(bot.llm.requests)) == (0, {}, asked), err
        (pull,) = repo.pulls
        assert pull.draft
        await report_check(bot.hub, pull, "success")
        code, outputs, err = await _run_action(bot, repo.full_name)
        assert (code, outputs, pull.draft) == (0, {}, False), err
