"""Runs a command so that a signal ends it in good order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""What ends a program from outside; Ctrl-C does the same by itself."""


def run_interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Run `work` and return its exit code; a signal cancels it, and 128 + the signal is returned.

    Raises:
        KeyboardInterrupt: Ctrl-C, after `work` was cancelled.
    """
    received: list[int] = []

    async def run() -> int:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)

        def stop(number: int) -> None:
            received.append(number)
            task.cancel()

        for each in SIGNALS:
            loop.add_signal_handler(each, stop, each)
        try:
            return await task
        except asyncio.CancelledError:
            if received:
                return 128 + received[0]
            raise
        finally:
            for each in SIGNALS:
                loop.remove_signal_handler(each)

    return asyncio.run(run())
