"""The limits of one execution."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from sandbox.frozen import Frozen
from sandbox.guest.supervisor.time_limit import WALL_FACTOR, WALL_MARGIN

INODES: Final = 200_000
OPEN_FILES: Final = 4096


class Limits(Frozen):
    """What one execution may use. Every limit is enforced from outside the process."""

    seconds: float = Field(default=100, gt=0)
    """Processor time of all its processes; then they are killed (CodeMonkeys, Table 4, has as much
    wall time). After so much wall time a program that does nothing is killed too, and after
    `wall_seconds` any. For a build it is wall time."""
    memory_mb: int = Field(default=2048, gt=0)
    """Resident memory together with everything written to the checkout, /tmp and /dev/shm."""
    cpus: float = Field(default=1, gt=0)
    processes: int = Field(default=256, gt=0)
    disk_mb: int = Field(default=1024, gt=0)
    """How much may be written to the checkout, and as much to /tmp."""
    output_kept_bytes: int = Field(default=64 * 1024, gt=0)
    """How much output is kept: half from the head, half from the tail."""
    output_total_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    """A program that prints more than this is killed."""

    @property
    def wall_seconds(self) -> float:
        """How long an execution may take on a busy host."""
        return self.seconds * WALL_FACTOR + WALL_MARGIN
