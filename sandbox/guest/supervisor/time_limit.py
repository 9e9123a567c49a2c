"""The time limit of an execution: processor time, which a busy host does not shorten.

Beside it stand two limits of wall time: one for programs that do nothing, and a generous multiple.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Final

WALL_FACTOR: Final = 6
WALL_MARGIN: Final = 600
"""A program may take so many times its processor time, and so many seconds more, of wall time, even
on a busy host."""
IDLE_SHARE: Final = 0.02
"""A program that computes, or waits until it may, does so for more than this share of the time."""
IDLE_START: Final = 0.1
"""Processor seconds that do not count as activity: starting takes some."""
IDLE_WINDOW: Final = 60
"""Seconds that are looked back to see whether a program does anything."""
LONGEST_PAUSE: Final = 0.5
"""Seconds between two looks, at most."""
CPU_TIME: Final = "processor time"
IDLE: Final = "idle"
WALL_TIME: Final = "wall time"
CGROUP_NANOSECONDS: Final = "/sys/fs/cgroup/cpuacct/cpuacct.usage"
OOM_COUNTERS: Final = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
CGROUP_STATISTICS: Final = "/sys/fs/cgroup/cpu.stat"


class TimeLimit:
    """Measures what all processes of this container use from its creation on."""

    def __init__(self, seconds: float, *, may_wait: bool = False) -> None:
        """`seconds` of processor time; a program that `may_wait` is never `IDLE`."""
        self._seconds = seconds
        self._may_wait = may_wait
        self._began = time.monotonic()
        self._before = read_cpu_seconds()
        self._queued = Queued()
        self._seen: deque[tuple[float, float]] = deque([(0.0, 0.0)])
        self.pause = min(LONGEST_PAUSE, max(0.02, seconds / 20))
        """Seconds until the next look."""
        self.used = 0.0
        """Processor seconds at the last look."""

    def find_exceeded(self) -> str:
        """Which limit was met: `CPU_TIME`, `IDLE`, `WALL_TIME`; empty for none."""
        wall = time.monotonic() - self._began
        self.used = used = read_cpu_seconds() - self._before
        self._seen.append((wall, used + self._queued.measure()))
        window = min(self._seconds, IDLE_WINDOW)
        while len(self._seen) > 1 and self._seen[1][0] <= wall - window:
            self._seen.popleft()
        if used >= self._seconds:
            return CPU_TIME
        if wall >= self._seconds * WALL_FACTOR + WALL_MARGIN:
            return WALL_TIME
        since, before = self._seen[0]
        active = self._seen[-1][1] - before > IDLE_START + IDLE_SHARE * (wall - since)
        may_go_on = active or self._may_wait
        return IDLE if wall >= self._seconds and not may_go_on else ""


class Queued:
    """How long processes have waited for the processor, which others use."""

    def __init__(self, read: Callable[[], float] | None = None) -> None:
        self._read = read or sum_queued_seconds
        self._last = self._read()
        self._total = 0.0

    def measure(self) -> float:
        """Seconds since the creation; of processes that ended meanwhile, not the last."""
        now = self._read()
        self._total += max(0.0, now - self._last)
        self._last = now
        return self._total


class TimeOfOurs:
    """Wall time without that in which processes waited for the processor of a busy host."""

    def __init__(self, queued: Queued) -> None:
        self._queued = queued
        self._looked = time.monotonic()
        self._waited = 0.0
        self._total = 0.0

    def measure(self) -> float:
        """Seconds since the creation; look often, for of each interval only its length counts as
        waiting, however many processes waited."""
        now, waited = time.monotonic(), self._queued.measure()
        self._total += max(0.0, now - self._looked - (waited - self._waited))
        self._looked, self._waited = now, waited
        return self._total


def sum_queued_seconds() -> float:
    """What the threads in /proc have waited on run queues; 0 where the kernel does not say."""
    nanoseconds = 0
    for process in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208
                fields = read_file(f"/proc/{process}/task/{thread}/schedstat").split()
                nanoseconds += int(fields[1]) if len(fields) == 3 else 0
    return nanoseconds / 1e9


def read_cpu_seconds() -> float:
    """Processor seconds of all processes of this container, ended ones too."""
    if nanoseconds := read_file(CGROUP_NANOSECONDS).strip():
        return int(nanoseconds) / 1e9
    microseconds = find_value(CGROUP_STATISTICS, "usage_usec")
    # gVisor has no such file.
    return sum_process_times() if microseconds is None else microseconds / 1e6


def count_oom_kills() -> int:
    """How often the kernel has killed in this container for want of memory."""
    found = (find_value(path, "oom_kill") for path in OOM_COUNTERS)
    return next((count for count in found if count is not None), 0)


def find_value(path: str, name: str) -> int | None:
    """The number behind `name` in a file of the kernel; None where there is none."""
    lines = (line.partition(" ") for line in read_file(path).splitlines())
    return next((int(value) for key, _, value in lines if key == name), None)


def read_file(path: str) -> str:
    """The text of a file of the kernel; empty where it cannot be read."""
    with (
        contextlib.suppress(OSError),
        open(path, encoding="utf-8", errors="replace") as file,  # noqa: PTH123
    ):
        return file.read()
    return ""


def sum_process_times() -> float:
    """What the processes in /proc have used, with those that they have waited for."""
    ticks = 0
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with contextlib.suppress(ValueError):
                fields = read_file(f"/proc/{name}/stat").rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
