"""What workers measure of themselves: gauges and histograms.

A sample's labels take few values: no repository, person or issue is among them.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from sandbox.observation import LEVELS, Event, Kind, Level

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
        """None if nothing is known about the current hour."""
        rate = self._current
        return rate.remaining if rate else None

    @property
    def _current(self) -> _Rate | None:
        lowest = self._lowest
        return lowest if lowest and lowest.resets_at > time.time() else None


GITHUB_RATE: Final = GitHubRate()


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


SHORT: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Bounds in seconds, for calls."""
LONG: Final = (5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
"""Bounds in seconds, for stages and runs."""
TOKENS: Final = (100, 1_000, 4_000, 16_000, 32_000, 64_000, 128_000, 256_000, 1_000_000)
DOLLARS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 25)


class Histogram(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    """Upper bounds of the buckets, without infinity."""


QUEUE: Final = Histogram(
    "capuchin_queue_duration_seconds",
    "From the request of a run to its first start.",
    ("lane",),
    LONG,
)
RUN: Final = Histogram(
    "capuchin_run_duration_seconds",
    "From a run's first start to its end, by outcome.",
    ("end",),
    LONG,
)
RUN_DOLLARS: Final = Histogram(
    "capuchin_run_dollars", "Cost of a finished run, at list prices, by outcome.", ("end",), DOLLARS
)
STAGE: Final = Histogram(
    "capuchin_stage_duration_seconds", "Duration of a stage of a run.", ("stage",), LONG
)
MODEL_CALL: Final = Histogram(
    "capuchin_model_call_duration_seconds",
    "Duration of a model call; `error` is the class of what it failed with.",
    ("model", "error"),
    SHORT,
)
MODEL_TOKENS: Final = Histogram(
    "capuchin_model_call_tokens",
    "Tokens of a model call: `input` without what was read from a cache, `cached`, `output`.",
    ("model", "kind"),
    TOKENS,
)
EXECUTION: Final = Histogram(
    "capuchin_execution_duration_seconds",
    "Duration of a program in the sandbox with its wait for a free place, by how it ended.",
    ("ending",),
    SHORT,
)
GITHUB_CALL: Final = Histogram(
    "capuchin_github_call_duration_seconds",
    "Duration of a request to GitHub, by the HTTP status of the answer (`none`: no answer).",
    ("status",),
    SHORT,
)
HISTOGRAMS: Final = (
    QUEUE, RUN, RUN_DOLLARS, STAGE, MODEL_CALL, MODEL_TOKENS, EXECUTION, GITHUB_CALL,
)  # fmt: skip
LEASES_LOST: Final = "leases_lost"
ARCHIVE_FAILURES: Final = "archive_failures"
_SEPARATOR: Final = "\x1f"


class Series(NamedTuple):
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    """The samples of each bucket alone, infinity last."""
    sum: float


class Recorder:
    """Adds up the samples of this process until they are written to Redis."""

    def __init__(self) -> None:
        self._sums: defaultdict[str, float] = defaultdict(float)

    def add(self, histogram: Histogram, value: float, *labels: str) -> None:
        """Count one sample. `labels` has a value for each of the histogram's labels."""
        at = sum(value > bound for bound in histogram.bounds)
        key = _SEPARATOR.join((histogram.name, *labels))
        self._sums[f"{key}{_SEPARATOR}{at}"] += 1
        self._sums[f"{key}{_SEPARATOR}sum"] += value

    def count(self, name: str) -> None:
        """Count one of `name`, which is not a histogram."""
        self._sums[name] += 1

    def take(self) -> dict[str, float]:
        """The sums since the last call, by field: the caller stores them or gives them back."""
        taken, self._sums = dict(self._sums), defaultdict(float)
        return taken

    def give_back(self, taken: Mapping[str, float]) -> None:
        """Keep this for the next time, as Redis did not answer."""
        for name, value in taken.items():
            self._sums[name] += value

    @contextmanager
    def observe(self, event: Event) -> Generator[None]:
        try:
            yield
        finally:
            facts = event.facts
            match event.kind:
                case Kind.STAGE:
                    self.add(STAGE, event.seconds, str(facts["stage"]))
                case Kind.MODEL_CALL:
                    model = str(facts["model"])
                    self.add(MODEL_CALL, event.seconds, model, event.error)
                    for kind in ("input", "cached", "output"):
                        if kind in facts:
                            self.add(MODEL_TOKENS, float(facts[kind]), model, kind)
                case Kind.EXECUTION:
                    self.add(EXECUTION, event.seconds, str(facts.get("ending", "none")))
                case Kind.GITHUB_CALL:
                    self.add(GITHUB_CALL, event.seconds, str(facts.get("status", "none")))
                case Kind.RUN:  # one attempt; the end of the run is counted elsewhere
                    pass


RECORDER: Final = Recorder()


def read_series(histogram: Histogram, fields: Mapping[str, float]) -> Iterator[Series]:
    """The series of a histogram in the sums from Redis, in the order of their labels."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for name, value in fields.items():
        first, *labels = name.split(_SEPARATOR)
        last = labels.pop() if labels else ""  # a counter has only a name
        if first == histogram.name and len(labels) == len(histogram.labels):
            found.setdefault(tuple(labels), {})[last] = value
    buckets = range(len(histogram.bounds) + 1)
    for labels, parts in sorted(found.items()):
        counts = tuple(int(parts.get(str(at), 0)) for at in buckets)
        yield Series(labels, counts, parts.get("sum", 0.0))
