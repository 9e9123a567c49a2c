"""Fails the test in which code of ours keeps the event loop from everything else for too long.

Counted is the processor time of the loop's thread, so that a busy machine fails no test. What the
test itself, the stand-ins and first imports take does not count.
"""

import asyncio
import gc
import signal
import threading
import time
import traceback
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from bot.telemetry.log import STALL_SECONDS

_ROOT = Path(__file__).parents[2]
_OURS = tuple(f"{_ROOT / room}/" for room in ("bot", "pipeline", "sandbox", "prompts"))
_OTHERS = tuple(f"{_ROOT / room}/" for room in ("tests", "deploy/demo", ".venv"))
_PASSING_ON = f"{_ROOT}/sandbox/docker/docker_client.py"
"""Blame falls on who calls it: tests ask Docker as well, and may wait for the answer."""
_SAMPLE_SECONDS = 0.05
_STEP = cast(Any, asyncio.Handle)._run.__code__
_MAIN = threading.main_thread().ident


class LoopWatch:
    """Which steps of the loop take long; `stalls` are those of ours that took too long.

    Nothing is done for each step, as there are millions: a step is seen when two samples find it.
    """

    def __init__(self) -> None:
        self.stalls: list[str] = []
        self._step: FrameType | None = None
        """Of the step that the last sample found."""
        self._clock = 0.0
        """The thread's, at the last sample."""
        self._ours = 0.0
        self._gc_began: float | None = None
        self._stack = ""

    def leave_out_gc(self, phase: str, _info: dict[str, int]) -> None:
        """Garbage collection is nobody's: its time depends on all tests of the process."""
        if threading.get_ident() != _MAIN:
            return
        if phase == "start":
            self._gc_began = time.thread_time()
        elif self._gc_began is not None:
            self._clock += time.thread_time() - self._gc_began
            self._gc_began = None

    def sample(self, _signal: int, frame: FrameType | None) -> None:
        """Give the time since the last sample of this step to the code that runs now."""
        if self._gc_began is not None:
            return
        clock, step = time.thread_time(), _find_step(frame)
        if step is not self._step:
            self.end_step()
            self._step = step
        elif step is not None and _is_ours(frame):
            self._ours += clock - self._clock
            self._stack = "".join(traceback.format_stack(frame)[-8:])
        self._clock = clock

    def end_step(self) -> None:
        """Decide on the step that was found last."""
        if self._ours > STALL_SECONDS:
            self.stalls.append(f"{self._ours:.2f} s of processor time in\n{self._stack}")
        self._step, self._ours, self._stack = None, 0.0, ""


def _find_step(frame: FrameType | None) -> FrameType | None:
    """The frame of the loop's step in which `frame` is; None outside of a loop."""
    while frame is not None and frame.f_code is not _STEP:
        frame = frame.f_back
    return frame


def _is_ours(frame: FrameType | None) -> bool:
    blamed: bool | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if "importlib" in file:
            return False
        if file == _PASSING_ON:
            pass
        elif blamed is None and file.startswith(_OURS) and not file.startswith(_OTHERS):
            blamed = True
        elif blamed is None and file.startswith(_OTHERS[:-1]):
            blamed = False
        frame = frame.f_back
    return bool(blamed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    watch = LoopWatch()
    gc.callbacks.append(watch.leave_out_gc)
    before = signal.signal(signal.SIGPROF, watch.sample)
    signal.setitimer(signal.ITIMER_PROF, _SAMPLE_SECONDS, _SAMPLE_SECONDS)
    try:
        found = yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        gc.callbacks.remove(watch.leave_out_gc)
        watch.end_step()
    if watch.stalls and not item.get_closest_marker("blocks_loop"):
        pytest.fail("The event loop stood still:\n" + "\n".join(watch.stalls), pytrace=False)
    return found


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is imported and collected stays: no garbage collection needs to look at it again."""
    gc.collect()
    gc.freeze()
