"""A signal ends a command as Ctrl-C does: what it opened is closed."""

import signal
import subprocess
import sys

import pytest

WORK = """
import asyncio, sys
from bot.cli.local_run import run_interruptible

async def work():
    try:
        print("open", flush=True)
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0)
        print("closed", flush=True)

sys.exit(run_interruptible(work()))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_closes_what_is_open(number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.send_signal(number)
        assert process.stdout.read() == "closed\n"
        assert process.wait(300) == 128 + number
