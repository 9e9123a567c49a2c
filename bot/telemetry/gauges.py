"""What a worker measures of itself at the moment: it says so with each heartbeat."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from sandbox.observation import LEVELS, Level

DISK_FREE: Final = "disk_free_bytes"
DISK_SIZE: Final = "disk_size_bytes"
GITHUB_REMAINING: Final = "github_remaining"
IDLE_CONTAINERS: Final = "idle_containers"
BUSY_CONTAINERS: Final = "busy_containers"


class _Rate(NamedTuple):
    remaining: int
    resets_at: float


class GitHubRate:
    """The fewest calls that GitHub still allows any installation within its current hour."""

    def __init__(self) -> None:
        self._lowest: _Rate | None = None

    def note(self, headers: Mapping[str, str]) -> None:
        """Read the headers of an answer (docs.github.com/rest/using-the-rest-api/rate-limits)."""
        remaining, reset = (headers.get(f"x-ratelimit-{n}", "") for n in ("remaining", "reset"))
        if not (_is_number(remaining) and _is_number(reset)):
            return
        rate, lowest = _Rate(int(remaining), float(reset)), self._current
        if lowest is None or rate.remaining <= lowest.remaining:
            self._lowest = rate

    @property
    def remaining(self) -> int | None:
        """None: nothing is known of the current hour."""
        rate = self._current
        return rate.remaining if rate else None

    @property
    def _current(self) -> _Rate | None:
        lowest = self._lowest
        return lowest if lowest and lowest.resets_at > time.time() else None


GITHUB_RATE: Final = GitHubRate()
"""That of this process."""


def measure(data_dir: Path) -> dict[str, float]:
    """The gauges of this process. Blocking."""
    found: dict[str, float] = {
        IDLE_CONTAINERS: LEVELS.read(Level.IDLE_CONTAINERS),
        BUSY_CONTAINERS: LEVELS.read(Level.BUSY_CONTAINERS),
    }
    place = data_dir.absolute()
    while not place.exists():
        place = place.parent
    disk = shutil.disk_usage(place)
    found |= {DISK_FREE: disk.free, DISK_SIZE: disk.total}
    if (remaining := GITHUB_RATE.remaining) is not None:
        found[GITHUB_REMAINING] = remaining
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16
