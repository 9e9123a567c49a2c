"""One execution, seen from outside its world: output counted, time kept, the end judged."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sandbox.guest.supervisor.process import Place
from sandbox.output import Output

WORLD_SECONDS: Final = 30
"""Longest time for a world to be made, before the program's own clock starts."""
CHUNK: Final = 64 * 1024
STATUS_BYTES: Final = 64 * 1024
OOM_COUNTERS: Final = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")

MEMORY_FILES: Final = (
    ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.max"),
    (
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ),
)
SMALL: Final = 0.25
"""The share of the memory that may still be in use when the next execution begins: it is free long
before that one can have taken the rest."""


class End(StrEnum):
    """The words of `sandbox.base.Ending`, and two that are no endings of a program."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output limit"
    KILLED = "killed"
    STOPPED = "stopped"
    """The host asked for it."""
    FAILED = "failed"
    """There was no world; nothing ran."""


class Verdict:
    """How an execution ended; never taken from what it printed."""

    def __init__(
        self, end: End, output: Output, *, words: str = "", code: int | None = None
    ) -> None:
        """`words` say what failed."""
        self.end = end
        self.output = output
        self.words = words
        self.code = code
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.peak_kb = 0


class Patience(NamedTuple):
    """How long, and how much output, an execution may take."""

    seconds: float
    output_kept: int
    output_total: int


class Watch:
    """Waits for the end of what runs in a `place`, and leaves nothing of it."""

    def __init__(
        self, place: Place, patience: Patience, *, control: int, wanted: Callable[[], bool]
    ) -> None:
        """`control` is a handle that gets readable when the host says something; then `wanted`
        is asked whether the execution still is."""
        self._place = place
        self._patience = patience
        self._control = control
        self._wanted = wanted
        self._output = Output(patience.output_kept)
        self._told = b""
        self._facts: dict[str, Any] = {}
        self._begun: float | None = None
        self._is_gone = False
        self._kills = oom_kills()
        self._deadline = time.monotonic() + WORLD_SECONDS

    def until_the_end(self) -> Verdict:
        """Nothing runs in the world any more then; `leave` waits until the kernel is done too."""
        cut = self._listen()
        seconds = time.monotonic() - (self._begun or time.monotonic())
        used = self._facts
        if "ended" not in used:
            used = self._end()
        while self._read_output():
            pass
        self._hear()
        verdict = self._judge(cut, killed_for_memory=oom_kills() > self._kills)
        verdict.seconds = float(self._facts.get("seconds", seconds))
        verdict.cpu_seconds = float(used["cpu_seconds"])
        verdict.peak_kb = int(used["peak_kb"])
        return verdict

    def leave(self) -> None:
        """Wait until the world is gone, memory and all."""
        if not self._is_gone:
            self._end()
        self._place.close()

    def _end(self) -> dict[str, Any]:
        """Kill process 1 of the world; what it used, and all that the kernel takes along."""
        used = self._place.clear()
        self._is_gone = True
        return {"cpu_seconds": used.ru_utime + used.ru_stime, "peak_kb": used.ru_maxrss}

    def _judge(self, cut: End | None, *, killed_for_memory: bool) -> Verdict:
        output = self._output
        if cut is End.STOPPED:
            return Verdict(End.STOPPED, output)
        if self._begun is None:
            words = str(self._facts.get("failed", "The world was not made in time."))
            if killed_for_memory:
                words = "The checkout does not fit into the memory limit."
            return Verdict(End.FAILED, output, words=words)
        if killed_for_memory:
            return Verdict(End.MEMORY, output)
        if cut or output.total > self._patience.output_total:
            return Verdict(cut or End.OUTPUT, output)
        if "ended" not in self._facts:
            return Verdict(End.FAILED, output, words="Process 1 of the world ended without a word.")
        code = os.waitstatus_to_exitcode(int(self._facts["ended"]))
        if code < 0:
            return Verdict(End.KILLED, output)
        return Verdict(End.EXIT, output, code=code)

    def _listen(self) -> End | None:
        """Until process 1 of the world has told its end; or why it was not waited for."""
        poll = select.poll()
        for handle in (self._place.output, self._place.status, self._control):
            poll.register(handle, select.POLLIN)
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                return End.TIMEOUT
            ready = {handle for handle, _ in poll.poll(left * 1000 + 1)}
            if self._place.output in ready and not self._read_output():
                poll.unregister(self._place.output)
            if self._output.total > self._patience.output_total:
                return End.OUTPUT
            if self._place.status in ready and not self._hear():
                return None
            if self._control in ready and not self._wanted():
                return End.STOPPED

    def _read_output(self) -> bool:
        """Whether there may be more."""
        data = read(self._place.output)
        if data:
            self._output.add(data)
        return bool(data)

    def _hear(self) -> bool:
        """Whether process 1 of the world may have more to tell."""
        data = read(self._place.status)
        *lines, self._told = (self._told + data).split(b"\n")
        for line in lines:
            self._facts |= json.loads(line)
        if self._begun is None and "ready" in self._facts:
            self._begun = time.monotonic()
            self._deadline = self._begun + self._patience.seconds
        return bool(data) and "ended" not in self._facts


def read(handle: int) -> bytes:
    """What is there; nothing at the end, or when nothing is there."""
    with contextlib.suppress(BlockingIOError):
        return os.read(handle, CHUNK)
    return b""


def oom_kills() -> int:
    """How often the kernel has killed in this container for want of memory."""
    for path in OOM_COUNTERS:
        try:
            with open(path, encoding="ascii") as file:  # noqa: PTH123
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def is_memory_short() -> bool:
    """Whether what the last execution used must be free before the next begins."""
    for used, limit in MEMORY_FILES:
        with contextlib.suppress(OSError, ValueError):
            with open(used, encoding="ascii") as file:  # noqa: PTH123
                bytes_used = int(file.read())
            with open(limit, encoding="ascii") as file:  # noqa: PTH123
                return bytes_used > SMALL * int(file.read())
    return True
