"""What another version of Capuchin saved: its runs end with a sentence, and block nobody."""

from __future__ import annotations

import asyncio
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from bot.data.run import Failure, Run, RunStatus
from capuchin_demo.hub.state import Issue
from pipeline.store import FORMAT, OLDEST
from tests.e2e.harness import BotHarness
from tests.support.hub import ref_of


async def resave(bot: BotHarness, run: Run, number: int | None) -> None:
    """Save the run and its checkpoints again, as a version of that format would have."""

    def convert(data: bytes) -> bytes:
        saved: dict[str, Any] = json.loads(data)
        if number is None:
            return json.dumps({**saved["record"], "no_longer_known": 1}).encode()
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


async def test_a_run_that_the_last_release_saved_is_continued_by_the_next(
    bot: BotHarness,
) -> None:
    """`data/format_2.json` is what Redis held at commit 26d2538. When FORMAT is raised, save its
    records as the next file."""
    repo = bot.add_repo()
    issue = await bot.report_issue(repo)
    run, keys = await interrupt(bot, issue), bot.storage.keys
    saved = json.loads((Path(__file__).parent / "data/format_2.json").read_text())
    theirs = json.loads(saved["run"])
    own = ("id", "repo", "asked_at", "created_at", "base_commit", "comment_id", "delivery")
    theirs["record"] |= {name: run.model_dump(mode="json")[name] for name in own}
    await bot.redis.set(keys.run(run.id), json.dumps(theirs))
    await bot.redis.set(keys.progress_report(run.id), saved["progress"])
    for name, text in saved["checkpoints"].items():
        await bot.redis.set(keys.checkpoint(run.id, name), zlib.compress(text.encode()))
    assert json.loads(saved["run"])["format"] == FORMAT - 1
    await bot.settle()
    ended = await bot.run_of(issue)
    assert ended.status is RunStatus.OPENED_PULL_REQUEST
    assert ended.id == run.id
    assert len(repo.pulls) == 1


@pytest.mark.parametrize(("number", "named"), [(None, 1), (OLDEST - 1, OLDEST - 1)])
async def test_a_run_of_an_earlier_format_ends_with_a_sentence_and_frees_its_issue(
    bot: BotHarness, caplog: pytest.LogCaptureFixture, number: int | None, named: int
) -> None:
    repo, other = bot.add_repo(), bot.add_repo("acme/other")
    issue, next_issue = await bot.report_issue(repo), await bot.report_issue(other)
    first = await interrupt(bot, issue)
    await resave(bot, first, number)
    await bot.label(next_issue)
    await bot.settle()
    ended = await bot.run_of(issue)
    assert (ended.id, ended.status) == (first.id, RunStatus.FAILED)
    assert ended.failure is Failure.OTHER_FORMAT
    sentence = (
        f"was saved in format {named}, and this version of Capuchin reads only format {FORMAT}"
    )
    (status,) = bot.comments_of(issue)
    assert sentence in status
    assert sentence in caplog.text
    assert len(other.pulls) == 1
    await bot.label(issue)
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_run_of_a_newer_format_is_left_to_newer_workers_for_an_hour(
    bot: BotHarness,
) -> None:
    issue, other = await bot.report_issue(bot.add_repo()), bot.add_repo("acme/other")
    run = await interrupt(bot, issue)
    keys = bot.storage.keys
    await resave(bot, run, FORMAT + 1)
    saved = await bot.redis.get(keys.run(run.id))
    next_issue = await bot.report_issue(other)
    async with bot.working(settle=False):
        await bot.label(next_issue)
        await bot.until(lambda: other.pulls)
        await bot.until(lambda: bot.redis.exists(keys.first_skipped(run.id)))
    assert await bot.redis.get(keys.run(run.id)) == saved
    await bot.redis.set(keys.first_skipped(run.id), "0")
    await bot.settle()
    assert (await bot.run_of(issue)).failure is Failure.OTHER_FORMAT


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


async def test_a_command_of_an_earlier_format_is_dropped_with_a_sentence(
    bot: BotHarness, caplog: pytest.LogCaptureFixture
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    comment = await bot.comment(issue, "/capuchin help")
    key = bot.storage.keys.request(f"comment-{comment.id}")
    saved = json.loads(await bot.redis.get(key) or b"")
    await bot.redis.set(key, json.dumps(saved["record"]))
    await bot.settle()
    assert "was saved in format 1" in caplog.text
    assert bot.comments_of(issue) == []
