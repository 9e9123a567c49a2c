"""What another version of Capuchin saved: its runs begin anew, and block nobody."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

import pytest

from bot.data.run import Run, RunStatus
from capuchin_demo.hub.state import Issue
from pipeline.store import FORMAT
from tests.e2e.harness import BotHarness
from tests.support.hub import ref_of


async def resave(bot: BotHarness, run: Run, number: int) -> None:
    """Save the run and its checkpoints again, as a version of that format would have."""

    def convert(data: bytes) -> bytes:
        saved: dict[str, Any] = json.loads(data)
        saved["record"]["no_longer_known"] = 1
        return json.dumps({**saved, "format": number}).encode()

    record = await bot.redis.get(bot.storage.keys.run(run.id))
    await bot.redis.set(bot.storage.keys.run(run.id), convert(record))
    saved_steps: list[bytes] = await bot.redis.keys(bot.storage.keys.checkpoint(run.id, "[a-z]*"))
    for key in saved_steps:
        saved = await bot.redis.get(key)
        await bot.redis.set(key, zlib.compress(convert(zlib.decompress(saved))))


async def interrupt(bot: BotHarness, issue: Issue) -> Run:
    """A run of the issue that has begun and waits for its next worker."""
    await bot.label(issue)
    lease = await bot.take((await bot.run_of(issue)).id)
    bot.runner.go_on.clear()
    work = asyncio.create_task(bot.work_on(lease))
    await bot.until(lambda: bot.runner.waiting)
    work.cancel()
    await asyncio.wait([work])
    bot.runner.go_on.set()
    await lease.release(lease.run)
    return lease.run


@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1])
async def test_a_run_of_another_format_begins_anew_and_says_so(
    bot: BotHarness, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    first = await interrupt(bot, issue)
    await resave(bot, first, number)
    await bot.settle()
    ended = await bot.run_of(issue)
    assert (ended.id, ended.status) == (first.id, RunStatus.OPENED_PULL_REQUEST)
    assert ended.starts == 1
    assert len(repo.pulls) == 1
    assert len(bot.comments_of(issue)) == 1
    assert f"Run {first.id} was saved in format {number}" in caplog.text
    assert "The run begins anew." in caplog.text
    assert ended.begun_anew
    assert "upgrade" in bot.comments_of(issue)[0]


async def test_a_run_of_which_too_little_is_known_is_forgotten(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    run = await interrupt(bot, issue)
    await bot.redis.set(bot.storage.keys.run(run.id), b'{"format":1}')
    await bot.settle()
    await bot.hub.remove_label(issue, "capuchin", "alice")
    await bot.label(issue)
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert await bot.runs.get_current(ref_of(issue.repo), issue.number) is None


async def test_a_command_of_another_format_is_dropped_with_a_sentence(
    bot: BotHarness, caplog: pytest.LogCaptureFixture
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    comment = await bot.comment(issue, "/capuchin help")
    key = bot.storage.keys.request(f"comment-{comment.id}")
    saved = json.loads(await bot.redis.get(key) or b"")
    await bot.redis.set(key, json.dumps({**saved, "format": 1}))
    await bot.settle()
    assert "format 1" in caplog.text
    assert bot.comments_of(issue) == []
