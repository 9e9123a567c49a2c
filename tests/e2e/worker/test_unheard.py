"""Nobody waits unheard: neither behind a full worker, nor where no worker is left."""

from __future__ import annotations

import httpx
import pytest

from bot.data.run import RunStatus
from tests.e2e.followup.steps import REVIEW_LINE, open_pull
from tests.e2e.harness import BotHarness, StartBot


@pytest.mark.parametrize("how", ["label", "close", "command"])
async def test_a_queued_run_is_stopped_at_once_and_its_comment_says_so(
    start_bot: StartBot, how: str
) -> None:
    async with start_bot(worker_runs=1, queue_seconds=0.5) as bot:
        first, second = [await bot.report_issue(bot.add_repo(f"acme/{n}")) for n in "ab"]
        bot.runner.go_on.clear()
        async with bot.working():
            await bot.label(first)
            await bot.until(lambda: bot.runner.waiting)
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


async def test_a_reviewer_is_acknowledged_at_once_however_busy_the_workers_are(
    start_bot: StartBot,
) -> None:
    async with start_bot(worker_runs=1, review_seconds=3600) as bot:
        _, pull = await open_pull(bot)
        async with bot.working(settle=False):
            review = await bot.hub.review(pull, "alice", lines=REVIEW_LINE)
            await bot.until(lambda: review.comments[0].reactions)
            await bot.until(lambda: bot.hasten(pull))


async def test_without_a_worker_the_server_says_so_and_a_worker_goes_on_in_that_comment(
    start_bot: StartBot,
) -> None:
    async with start_bot(no_worker_seconds=0.5) as bot:
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
