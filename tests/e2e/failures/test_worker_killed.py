"""`capuchin worker` as a process: killed in the middle of a run, replaced, nothing done twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from pydantic import SecretStr

from bot.recorded.recording import RecordedAnswer
from bot.settings import Settings, variable_fields, variable_name
from bot.types import Run, RunStatus
from tests.e2e import shop
from tests.e2e.conftest import Standing
from tests.e2e.harness import BotHarness
from tests.support.hub import ref_of

SAMPLES = 2
"""As the repository's configuration has it; each may have had a call under way."""
SLOW = RecordedAnswer(call="editing/1", turn=0, reply=shop.RIGHT, delay=2)
"""Long enough to be killed in."""


@contextmanager
def worker(settings: Settings) -> Generator[subprocess.Popen[bytes]]:
    values = {
        variable_name(name): value.get_secret_value()
        if isinstance(value, SecretStr)
        else str(value)
        for name, value in settings
        if value is not None and name in variable_fields()
    }
    path = {"PATH": os.environ["PATH"]}  # noqa: TID251 - git must be found
    process = subprocess.Popen([sys.executable, "-m", "bot", "worker"], env={**path, **values})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def until_asked(bot: BotHarness, call: str) -> None:
    async with asyncio.timeout(60):
        while not any(asked.call == call for asked in bot.llm.requests):
            await asyncio.sleep(0.02)


async def ended(bot: BotHarness, run: Run) -> Run:
    async with asyncio.timeout(120):
        while True:
            found = await bot.runs.get(run.id)
            assert found is not None
            if found.status.final:
                return found
            await asyncio.sleep(0.05)


async def test_a_killed_worker_is_replaced_and_one_call_of_a_sample_is_repeated_at_most(
    standing: Standing,
) -> None:
    recording = shop.answers(SLOW)
    async with standing(recording, lease_seconds=6) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo)
        with worker(bot.settings) as first:
            await until_asked(bot, "editing/1")
            first.send_signal(signal.SIGKILL)
            killed = time.monotonic()
        begun = await bot.runs.get_latest(ref_of(repo), issue.number)
        assert begun is not None
        asked_before = len(bot.llm.requests)
        with worker(bot.settings) as second:
            while len(bot.llm.requests) == asked_before:
                assert time.monotonic() - killed < 60, "nobody went on"
                await asyncio.sleep(0.05)
            run = await ended(bot, begun)
            async with asyncio.timeout(60):
                while await bot.runs.list_active():  # the evidence is gathered in a run of its own
                    await asyncio.sleep(0.05)
            second.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(second.wait, 60) == 0
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        assert run.starts == 2
        assert len(repo.pulls) == 1
        assert len(issue.comments) == 1
        questions = Counter((q.call, q.turn, q.messages) for q in bot.llm.requests)
        repeated = sum(questions.values()) - len(questions)
        assert repeated <= SAMPLES, "more than one call of a sample was repeated"
