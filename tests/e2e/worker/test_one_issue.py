"""`capuchin worker --issue URL`, which the GitHub Action runs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import yaml

from bot.data.run import RunStatus
from capuchin_demo.hub.state import Issue
from tests.e2e import shop
from tests.e2e.failures.worker_process import worker_environment
from tests.e2e.harness import BotHarness

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
