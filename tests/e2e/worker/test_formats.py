"""Workers in a changing house: other formats, full disks, and nobody who waits unheard."""

import asyncio
import dataclasses
import json
import os
import zlib
from typing import Any

import httpx
import pytest

from bot.data.run import Run, RunStatus
from bot.telemetry.measurements import METRICS
from capuchin_demo.hub.state import Issue
from pipeline.store import FORMAT
from sandbox.frozen import replace
from tests.e2e.followup.steps import REVIEW_LINE, open_pull
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
    repo, issue = await bot.add_repo_with_issue()
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
    await bot.ask_by_label(issue)
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert await bot.runs.get_current(ref_of(issue.repo), issue.number) is None


async def test_a_command_of_another_format_waits_for_a_worker_that_reads_it(
    bot: BotHarness, caplog: pytest.LogCaptureFixture
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    comment = await bot.comment(issue, "/capuchin help")
    key = f"arq:job:{bot.storage.keys.request(f'comment-{comment.id}')}"
    saved = await bot.redis.get(key) or b""
    await bot.redis.set(key, saved.replace(rf"\"format\":{FORMAT}".encode(), rb"\"format\":1"))
    async with bot.working():
        await bot.until(lambda: "format 1" in caplog.text)
        assert bot.comments_of(issue) == []
        await bot.redis.set(key, saved)
    assert len(bot.comments_of(issue)) == 1


async def test_a_mirror_that_nobody_used_for_long_makes_room_and_is_counted(
    bot: BotHarness,
) -> None:
    repo, other = bot.add_repo(), bot.add_repo("acme/other")
    await bot.ask_by_label(await bot.report_issue(repo))
    mirrors = list((bot.settings.data_dir / "mirrors").glob("*/acme/*.git"))
    (old,) = mirrors
    os.utime(old.with_suffix(".lock"), (0, 0))
    bot.parts = dataclasses.replace(bot.parts, settings=replace(bot.settings, mirrors_mb=0))
    await bot.ask_by_label(await bot.report_issue(other))
    assert not old.exists()
    mirrors = {"of": "mirrors"}
    assert METRICS.get_sample_value("capuchin_limit_bytes", mirrors) == 0
    assert (METRICS.get_sample_value("capuchin_evicted_bytes_total", mirrors) or 0) > 1000


@pytest.mark.parametrize("how", ["label", "close", "command"])
@pytest.mark.settings(worker_runs=1, queue_seconds=0.5)
async def test_a_queued_run_is_stopped_at_once_and_its_comment_says_so(
    bot: BotHarness, how: str
) -> None:
    first, second = [await bot.report_issue(bot.add_repo(f"acme/{n}")) for n in "ab"]
    async with bot.at_work(bot.label(first)):
        await bot.label(second)
        await bot.until(lambda: "next in the queue" in " ".join(bot.comments_of(second)))
        match how:
            case "label":
                await bot.hub.remove_label(second, "capuchin", "alice")
            case "close":
                await bot.hub.close_issue(second, "alice")
            case _:
                await bot.comment(second, "/capuchin stop")
        await bot.until(lambda: "I stopped" in bot.comments_of(second)[0])
        assert bot.runner.waiting  # the slot was never free
        bot.runner.go_on.set()
    run = await bot.run_of(second)
    assert (run.status, run.starts) == (RunStatus.STOPPED, 0)


@pytest.mark.settings(worker_runs=1, review_seconds=3600)
async def test_a_reviewer_is_acknowledged_at_once_however_busy_the_workers_are(
    bot: BotHarness,
) -> None:
    _, pull = await open_pull(bot)
    async with bot.working(settle=False):
        review = await bot.hub.review(pull, "alice", lines=REVIEW_LINE)
        await bot.until(lambda: review.comments[0].reactions)
        await bot.until(lambda: bot.hasten(pull))


@pytest.mark.settings(no_worker_seconds=0.5)
async def test_without_a_worker_the_server_says_so_and_a_worker_goes_on_in_that_comment(
    bot: BotHarness,
) -> None:
    issue = await bot.open_issue(bot.add_repo())
    await bot.until(lambda: bot.comments_of(issue))
    run = await bot.solve(issue)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    (comment,) = bot.comments_of(issue)
    assert "I opened #" in comment


async def test_readiness_can_ask_for_a_worker(bot: BotHarness) -> None:
    url = (bot.hub.webhook_url or "").replace("/webhook", "/readyz")
    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
        assert (await client.get(url)).status_code == 200
        answer = await client.get(url, params={"workers": "1"})
        assert (answer.status_code, "worker" in answer.json()["reason"]) == (503, True)
        async with bot.working():
            await bot.until(bot.storage.workers.list_living)
            assert (await client.get(url, params={"workers": "1"})).status_code == 200
