"""A `capuchin worker` that is killed or told to go: another takes over, nothing is done twice."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

import docker

from bot.data.run import Run, RunStatus
from capuchin_demo.recorded.recording import RecordedAnswer
from sandbox.docker.docker_client import connect
from tests.e2e import shop
from tests.e2e.failures.waiting import until_asked
from tests.e2e.failures.worker_process import run_worker
from tests.e2e.harness import SECONDS, StartBot
from tests.support.docker import containers_of
from tests.support.hub import ref_of

SAMPLES = 2
"""As the repository's configuration has it; each may have had a call under way."""
SLOW = RecordedAnswer(call="editing/1", turn=0, reply=shop.RIGHT, delay=2)
"""Long enough to be killed in."""


async def test_a_killed_worker_is_replaced_and_one_call_of_a_sample_is_repeated_at_most(
    start_recorded_bot: StartBot,
) -> None:
    recording = shop.answers(SLOW)
    # Long enough to lose no lease while the machine is busy: that would be one start more.
    async with start_recorded_bot(recording, lease_seconds=SECONDS) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo)
        with run_worker(bot.settings) as first:
            await until_asked(bot, "editing/1")
            first.send_signal(signal.SIGKILL)
            first.wait()
        begun = await bot.runs.get_latest(ref_of(repo), issue.number)
        assert begun is not None
        await bot.redis.delete(bot.storage.keys.lease(begun.id))  # its time has passed
        with run_worker(bot.settings) as second:
            run = await bot.wait_for_end(begun)
            second.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(second.wait, 300) == 0
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        assert run.starts == 2
        assert len(repo.pulls) == 1
        assert len(issue.comments) == 1
        questions = Counter((q.call, q.turn, q.messages) for q in bot.llm.requests)
        repeated = sum(questions.values()) - len(questions)
        assert repeated <= SAMPLES, "more than one call of a sample was repeated"


async def test_a_worker_told_to_go_loses_nothing_and_the_next_repeats_nothing(
    start_recorded_bot: StartBot,
) -> None:
    # Long enough to lose no lease while the machine is busy: that would be one start more.
    async with start_recorded_bot(shop.answers(SLOW), lease_seconds=SECONDS) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo)
        with run_worker(bot.settings) as old:
            await until_asked(bot, "editing/1")
            old.send_signal(signal.SIGTERM)
            with run_worker(bot.settings) as new:
                assert await asyncio.to_thread(old.wait, 300) == 0
                run = await bot.wait_for_end(await bot.run_of(issue))
                new.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(new.wait, 300) == 0
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        assert (run.starts, run.fruitless_starts) == (2, 1)
        questions = Counter((q.call, q.turn, q.messages) for q in bot.llm.requests)
        assert questions.most_common(1)[0][1] == 1, questions
        assert bot.llm.disconnected == []
        daemon = connect(None)
        try:
            await bot.until(lambda: nothing_left(daemon, run))
        finally:
            daemon.close()
        (comment,) = issue.comments
        assert "I opened #2" in comment.body
        assert (len(repo.pulls), issue.labels) == (1, [])


async def nothing_left(daemon: docker.APIClient, run: Run) -> bool:
    return containers_of(daemon, run.id) == []
