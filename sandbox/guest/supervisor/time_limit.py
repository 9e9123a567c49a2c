"""The time limit of an execution: processor time, which a busy host does not shorten.

Beside it stand two limits of wall time: one for programs that do nothing, and a generous multiple.
Runs on Python 3.6, too: the wrapper of a repository's tests holds this text as its own.
"""

import contextlib
import os
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:  # takes long to import
    from collections.abc import Callable, Iterable

WALL_FACTOR = 6
WALL_MARGIN = 600
"""A program may take so many times its processor time, and so many seconds more, of wall time, even
on a busy host."""
IDLE_SHARE = 0.02
"""A program that computes, or waits until it may, does so for more than this share of the time."""
IDLE_START = 0.1
"""Processor seconds that do not count as activity: starting takes some."""
IDLE_WINDOW = 60
"""Seconds that are looked back to see whether a program does anything."""
LONGEST_PAUSE = 0.5
"""Seconds between two looks, at most."""
CPU_TIME = "processor time"
IDLE = "idle"
WALL_TIME = "wall time"
CGROUP_NANOSECONDS = "/sys/fs/cgroup/cpuacct/cpuacct.usage"
OOM_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
CGROUP_STATISTICS = "/sys/fs/cgroup/cpu.stat"


class TimeLimit:
    """Measures what all processes of this container use from its creation on; with a `root`, this
    process alone and those that it started."""

    def __init__(self, seconds: float, *, may_wait: bool = False, root: int = 0) -> None:
        """`seconds` of processor time; a program that `may_wait` is never `IDLE`."""
        self._seconds = seconds
        self._may_wait = may_wait
        self._began = time.monotonic()
        self._root = root
        self._before = self._read_cpu()
        self._queued = Queued(lambda: sum_queued_seconds(list_processes(root)))
        self._seen = deque([(0.0, 0.0)])
        self.pause = min(LONGEST_PAUSE, max(0.02, seconds / 20))
        """Seconds until the next look."""
        self.used = 0.0
        """Processor seconds at the last look."""

    def find_exceeded(self) -> str:
        """Which limit was met: `CPU_TIME`, `IDLE`, `WALL_TIME`; empty for none."""
        wall = time.monotonic() - self._began
        self.used = used = self._read_cpu() - self._before
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

    def _read_cpu(self) -> float:
        return sum_process_times(list_processes(self._root)) if self._root else read_cpu_seconds()


class Queued:
    """How long processes have waited for the processor, which others use."""

    def __init__(self, read: "Callable[[], float] | None" = None) -> None:
        self._read = read or (lambda: sum_queued_seconds(list_processes()))
        self._last = self._read()
        self._total = 0.0

    def measure(self) -> float:
        """Seconds since the creation; of processes that ended meanwhile, not the last."""
        now = self._read()
        self._total += max(0.0, now - self._last)
        self._last = now
        return self._total


class OwnTime:
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


def list_processes(root: int = 0) -> "list[int]":
    """The processes in /proc; with a `root`, this one and those that it started."""
    found = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    if not root:
        return found
    children: dict[int, list[int]] = {}
    for process in found:
        with contextlib.suppress(ValueError, IndexError):
            children.setdefault(int(read_state(process)[1]), []).append(process)
    tree = [root]
    for process in tree:  # grows meanwhile
        tree += children.pop(process, [])
    return tree


def read_state(process: int) -> "list[str]":
    """The fields of a process from its state on; empty once it has ended."""
    return read_file(f"/proc/{process}/stat").rpartition(")")[2].split()


def sum_queued_seconds(processes: "Iterable[int]") -> float:
    """What their threads have waited on run queues; 0 where the kernel does not say."""
    nanoseconds = 0
    for process in processes:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208
                fields = read_file(f"/proc/{process}/task/{thread}/schedstat").split()
                nanoseconds += int(fields[1]) if len(fields) == 3 else 0
    return nanoseconds / 1e9


def read_cpu_seconds() -> float:
    """Processor seconds of all processes of this container, ended ones too."""
    nanoseconds = read_file(CGROUP_NANOSECONDS).strip()
    if nanoseconds:
        return int(nanoseconds) / 1e9
    microseconds = find_value(CGROUP_STATISTICS, "usage_usec")
    # gVisor has no such file.
    return sum_process_times(list_processes()) if microseconds is None else microseconds / 1e6


def count_oom_kills() -> int:
    """How often the kernel has killed in this container for want of memory."""
    found = (find_value(path, "oom_kill") for path in OOM_COUNTERS)
    return next((count for count in found if count is not None), 0)


def find_value(path: str, name: str) -> "int | None":
    """The number behind `name` in a file of the kernel; None where there is none."""
    lines = (line.partition(" ") for line in read_file(path).splitlines())
    return next((int(value) for key, _, value in lines if key == name), None)


def read_file(path: str) -> str:
    """The text of a file of the kernel; empty where it cannot be read."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read()
    return ""


def sum_process_times(processes: "Iterable[int]") -> float:
    """What processes have used, with those that they have waited for."""
    ticks = 0
    for process in processes:
        with contextlib.suppress(ValueError):
            ticks += sum(map(int, read_state(process)[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
