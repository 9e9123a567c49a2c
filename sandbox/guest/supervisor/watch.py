"""Monitors one execution from outside its namespaces: its output, its time and its end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sandbox.guest.supervisor.process import SandboxProcess
from sandbox.guest.supervisor.time_limit import TimeLimit, count_oom_kills, read_file
from sandbox.output import MarkedLines, Output

SETUP_SECONDS: Final = 30
"""How long the setup of an execution may take, before the program's own clock starts."""
CHUNK: Final = 64 * 1024
STATUS_BYTES: Final = 64 * 1024
MEMORY_FILES: Final = (
    ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.max"),
    ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
REPORT_SECONDS: Final = 1.0
SMALL_SHARE: Final = 0.25
"""The share of the memory that may still be in use when the next execution begins: the kernel
frees it before that execution can use up the rest."""


class GuestEnding(StrEnum):
    """The values of `sandbox.program.Ending`, and two that are not endings of a program."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output limit"
    KILLED = "killed"
    UNBUILT = "not built"
    STOPPED = "stopped"
    """The host asked for it."""
    FAILED = "failed"
    """The setup failed; nothing ran."""


class ExecutionResult:
    """How an execution ended; never taken from what it printed."""

    def __init__(
        self, end: GuestEnding, output: Output, *, message: str = "", code: int | None = None
    ) -> None:
        """`message` says what failed."""
        self.end = end
        self.output = output
        self.message = message
        self.code = code
        self.limit = ""
        """Which time limit was met, of `time_limit`'s."""
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.peak_kb = 0
        self.captured: dict[str, Any] = {}
        """What `capture_changes` reported, if the job asked for it and the program exited."""


class ExecutionLimits(NamedTuple):
    """How long, and how much output, an execution may take."""

    seconds: float
    """Processor seconds; see `time_limit`."""
    output_kept: int
    output_total: int
    may_wait: bool = False
    """Whether it may do nothing for long."""


class MarkedOutput:
    """Reports marked lines of the output, at most one in `REPORT_SECONDS`."""

    def __init__(self, mark: str, report: Callable[[str], None]) -> None:
        self._lines = MarkedLines(mark) if mark else None
        self._report = report
        self._next = 0.0

    def look_at(self, data: bytes) -> None:
        line = self._lines.find_latest(data) if self._lines else ""
        if line and time.monotonic() >= self._next:
            self._next = time.monotonic() + REPORT_SECONDS
            self._report(line)


class ExecutionMonitor:
    """Waits for the end of an execution, and leaves nothing of it running."""

    def __init__(
        self,
        process: SandboxProcess,
        limits: ExecutionLimits,
        *,
        control: int,
        is_wanted: Callable[[], bool],
        watch: MarkedOutput | None = None,
    ) -> None:
        """`control` is a handle that becomes readable when the host sends something; then
        `is_wanted` says whether the host still waits for the execution."""
        self._process = process
        self._limits = limits
        self._control = control
        self._is_wanted = is_wanted
        self._watch = watch
        self._output = Output(limits.output_kept)
        self._partial_line = b""
        self._status: dict[str, Any] = {}
        self._started_at: float | None = None
        self._is_gone = False
        self._limit = ""
        self._time: TimeLimit | None = None
        self._next_look = 0.0
        self._kills = count_oom_kills()
        self._deadline = time.monotonic() + SETUP_SECONDS

    def wait_for_result(self) -> ExecutionResult:
        """Wait until nothing of the execution runs any more.

        `wait_until_gone` waits until the kernel has freed its resources too.
        """
        cut = self._wait_for_end()
        seconds = time.monotonic() - (self._started_at or time.monotonic())
        used = self._status
        if "ended" not in used:
            used = self._kill()
        while self._read_output():
            pass
        self._read_status()
        result = self._build_result(cut, killed_for_memory=count_oom_kills() > self._kills)
        result.limit = self._limit
        result.seconds = float(self._status.get("seconds", seconds))
        result.cpu_seconds = float(used["cpu_seconds"])
        if self._limit and self._time is not None:
            # The kernel adds what children used only when somebody waits for them.
            result.cpu_seconds = max(result.cpu_seconds, self._time.used)
        result.peak_kb = int(used["peak_kb"])
        if result.end is GuestEnding.EXIT:
            kept = ("changes", "lost")
            result.captured = {name: self._status[name] for name in kept if name in self._status}
        return result

    def wait_until_gone(self) -> None:
        """Wait until the kernel has freed the execution's memory and namespaces."""
        if not self._is_gone:
            self._kill()
        self._process.close()

    def _kill(self) -> dict[str, Any]:
        """Kill the execution's process 1, and with it all other processes; what they used."""
        used = self._process.kill()
        self._is_gone = True
        return {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_kb": used.ru_maxrss}

    def _build_result(self, cut: GuestEnding | None, *, killed_for_memory: bool) -> ExecutionResult:
        output = self._output
        if cut is GuestEnding.STOPPED:
            return ExecutionResult(GuestEnding.STOPPED, output)
        if self._started_at is None:
            words = str(self._status.get("failed", "The setup of the execution took too long."))
            if killed_for_memory:
                words = "The checkout does not fit into the memory limit."
            return ExecutionResult(GuestEnding.FAILED, output, message=words)
        if killed_for_memory:
            return ExecutionResult(GuestEnding.MEMORY, output)
        if cut or output.total > self._limits.output_total:
            return ExecutionResult(cut or GuestEnding.OUTPUT, output)
        if "ended" not in self._status:
            return ExecutionResult(
                GuestEnding.FAILED,
                output,
                message="Process 1 of the execution ended without a report.",
            )
        code = os.waitstatus_to_exitcode(int(self._status["ended"]))
        if code < 0:
            return ExecutionResult(GuestEnding.KILLED, output)
        return ExecutionResult(GuestEnding.EXIT, output, code=code)

    def _wait_for_end(self) -> GuestEnding | None:
        """Wait until process 1 reports the end; otherwise why the wait was cut short."""
        poll = select.poll()
        for handle in (self._process.output, self._process.status, self._control):
            poll.register(handle, select.POLLIN)
        while True:
            left = self._look_at_time()
            if left <= 0:
                return GuestEnding.TIMEOUT
            ready = {handle for handle, _ in poll.poll(left * 1000 + 1)}
            if self._process.output in ready and not self._read_output():
                poll.unregister(self._process.output)
            if self._output.total > self._limits.output_total:
                return GuestEnding.OUTPUT
            if self._process.status in ready and not self._read_status():
                return None
            if self._control in ready and not self._is_wanted():
                return GuestEnding.STOPPED

    def _look_at_time(self) -> float:
        """Seconds until the next look; 0 or less when a limit is met."""
        now = time.monotonic()
        if self._time is None:
            return self._deadline - now
        if now < self._next_look:  # a look takes time, and a program may print much
            return self._next_look - now
        self._limit = self._time.find_exceeded()
        self._next_look = now + self._time.pause
        return 0 if self._limit else self._time.pause

    def _read_output(self) -> bool:
        """Whether there may be more."""
        data = read_available(self._process.output)
        if data:
            self._output.add(data)
            if self._watch is not None:
                self._watch.look_at(data)
        return bool(data)

    def _read_status(self) -> bool:
        """Whether process 1 of the execution may report more."""
        data = read_available(self._process.status)
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._status |= json.loads(line)
        if self._started_at is None and "ready" in self._status:
            self._started_at = time.monotonic()
            self._time = TimeLimit(self._limits.seconds, may_wait=self._limits.may_wait)
            self._next_look = self._started_at + self._time.pause
        return bool(data) and "ended" not in self._status


def read_available(handle: int) -> bytes:
    """What can be read without waiting; empty at the end, or if there is nothing."""
    with contextlib.suppress(BlockingIOError):
        return os.read(handle, CHUNK)
    return b""


def is_memory_short() -> bool:
    """Whether the memory of the last execution must be free before the next begins."""
    for used, limit in MEMORY_FILES:
        with contextlib.suppress(ValueError):  # there is no such file, or no limit
            return int(read_file(used)) > SMALL_SHARE * int(read_file(limit))
    return True
