"""Who took the processors, from proc(5): a latency says little without it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)
"""`idle` and `iowait` in the first line of /proc/stat; `guest` is part of `user`."""


class Clock(NamedTuple):
    """The processor time of one moment, in seconds."""

    at: float
    machine: float
    """Of all programs, and what the hypervisor gave to others."""
    process: float

    @classmethod
    def read(cls, pid: int) -> Clock:
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
        machine = sum(int(ticks) for at, ticks in enumerate(fields) if at not in _IDLE)
        return cls(time.monotonic(), machine / TICKS, read_processor_seconds(pid))

    def since(self, earlier: Clock) -> Clock:
        return Clock(*(now - then for now, then in zip(self, earlier, strict=True)))


def read_processor_seconds(pid: int) -> float:
    """What a process has taken, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
