"""A blocked loop: the log shows where, and a test with one fails."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot.telemetry.log import watch_loop

ROOT = Path(__file__).parents[3]
STALL = """
from bot.repo_config.yaml import YamlFile

async def test_it() -> None:
    for _ in range(20):
        YamlFile.parse("x: [" + "1," * 30_000 + "]")
"""


def stand_still(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_stall_is_logged_with_its_stack_and_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="bot.telemetry.log")
    async with watch_loop(seconds=0.05), asyncio.timeout(120):
        while not any("stand_still" in message for message in caplog.messages):
            stand_still(0.5)
        seen = len(caplog.messages)
        while not any("resumed after" in message for message in caplog.messages[seen - 1 :]):
            await asyncio.sleep(0.02)


async def test_a_loop_that_goes_on_is_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="bot.telemetry.log")
    async with watch_loop(seconds=60):
        await asyncio.sleep(0.1)
    assert caplog.messages == []


@pytest.mark.slow
def test_a_test_that_makes_the_loop_stand_still_fails(tmp_path: Path) -> None:
    (tmp_path / "test_stall.py").write_text(STALL)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p"]
    command += ["tests.support.loop_watch", "-c", "pyproject.toml", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, str(tmp_path / "test_stall.py")], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1, done.stdout
    assert "The event loop stood still" in done.stdout
    assert "bot/repo_config/yaml.py" in done.stdout
