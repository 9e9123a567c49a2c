"""What a worker measures of itself, for Prometheus.

Labels take few values: no repository, person or issue is among them.
"""

import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sandbox.observation import LEVELS, Event, Kind, Level

disable_created_metrics()
METRICS: Final = CollectorRegistry()
"""Those of this process; nobody else's collectors are among them."""


class _Rate(NamedTuple):
    remaining: int
    resets_at: float


class GitHubRate(Collector):
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

    def collect(self) -> Iterator[Metric]:
        text = "Requests that GitHub still allows an installation in this hour; absent: not known."
        yield GaugeMetricFamily("capuchin_github_remaining", text, value=self.remaining)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


class _Disk(Collector):
    def __init__(self, data_dir: Path) -> None:
        self._place = data_dir.absolute()

    def collect(self) -> Iterator[Metric]:
        place = self._place
        while not place.exists():
            place = place.parent
        disk = shutil.disk_usage(place)
        text = "Free space at CAPUCHIN_DATA_DIR."
        yield GaugeMetricFamily("capuchin_disk_free_bytes", text, value=disk.free)
        text = "Free part of that disk: 0 to 1."
        yield GaugeMetricFamily("capuchin_disk_free_ratio", text, value=disk.free / disk.total)


GITHUB_RATE: Final = GitHubRate()
METRICS.register(GITHUB_RATE)

SHORT: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Bounds in seconds, for calls."""
LONG: Final = (5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
"""Bounds in seconds, for stages and runs."""
TOKENS: Final = (100, 1_000, 4_000, 16_000, 32_000, 64_000, 128_000, 256_000, 1_000_000)
DOLLARS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 25)


def _histogram(name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> Histogram:
    return Histogram(f"capuchin_{name}", text, labels, buckets=bounds, registry=METRICS)


QUEUE: Final = _histogram(
    "queue_duration_seconds", "From the request of a run to its first start.", ["lane"], LONG
)
RUN: Final = _histogram(
    "run_duration_seconds", "From a run's first start to its end, by outcome.", ["end"], LONG
)
RUN_DOLLARS: Final = _histogram(
    "run_dollars", "Cost of a finished run, at list prices, by outcome.", ["end"], DOLLARS
)
STAGE: Final = _histogram(
    "stage_duration_seconds", "Duration of a stage of a run.", ["stage"], LONG
)
MODEL_CALL: Final = _histogram(
    "model_call_duration_seconds",
    "Duration of a model call; `error` is the class of what it failed with.",
    ["model", "error"],
    SHORT,
)
MODEL_TOKENS: Final = _histogram(
    "model_call_tokens",
    "Tokens of a model call: `input` without what was read from a cache, `cached`, `output`.",
    ["model", "kind"],
    TOKENS,
)
EXECUTION: Final = _histogram(
    "execution_duration_seconds",
    "Duration of a program in the sandbox with its wait for a free place, by how it ended.",
    ["ending"],
    SHORT,
)
GITHUB_CALL: Final = _histogram(
    "github_call_duration_seconds",
    "Duration of a request to GitHub, by the HTTP status of the answer (`none`: no answer).",
    ["status"],
    SHORT,
)
LEASES_LOST: Final = Counter(
    "capuchin_leases_lost",
    "How often a worker lost a run that it worked on: it was silent for too long.",
    registry=METRICS,
)
ARCHIVE_FAILURES: Final = Counter(
    "capuchin_archive_failures",
    "How often the archive did not take the bundle of an ended run.",
    registry=METRICS,
)
KEPT: Final = Gauge(
    "capuchin_kept_bytes",
    "What the worker's machine keeps for later runs.",
    ["of"],
    registry=METRICS,
)
LIMIT: Final = Gauge(
    "capuchin_limit_bytes", "The most that the machine may keep.", ["of"], registry=METRICS
)
EVICTED: Final = Counter(
    "capuchin_evicted_bytes", "What was least used and was deleted.", ["of"], registry=METRICS
)
_CONTAINERS: Final = Gauge(
    "capuchin_sandbox_containers",
    "Warm containers or pods of the worker.",
    ["state"],
    registry=METRICS,
)
_CONTAINERS.labels("busy").set_function(lambda: LEVELS.read(Level.BUSY_CONTAINERS))
_CONTAINERS.labels("idle").set_function(lambda: LEVELS.read(Level.IDLE_CONTAINERS))


@contextmanager
def measure(event: Event) -> Generator[None]:
    """The observer that puts what happens into the histograms."""
    try:
        yield
    finally:
        facts = event.facts
        match event.kind:
            case Kind.STAGE:
                STAGE.labels(facts["stage"]).observe(event.seconds)
            case Kind.MODEL_CALL:
                MODEL_CALL.labels(facts["model"], event.error).observe(event.seconds)
                for kind in ("input", "cached", "output"):
                    if kind in facts:
                        MODEL_TOKENS.labels(facts["model"], kind).observe(float(facts[kind]))
            case Kind.EXECUTION:
                EXECUTION.labels(facts.get("ending", "none")).observe(event.seconds)
            case Kind.GITHUB_CALL:
                GITHUB_CALL.labels(facts.get("status", "none")).observe(event.seconds)
            case Kind.RUN:  # one attempt; the end of the run is counted elsewhere
                pass


def serve_metrics(port: int, data_dir: Path) -> None:
    """Show them at this port, in a thread, until the process ends. Raises OSError."""
    METRICS.register(_Disk(data_dir))
    start_http_server(port, registry=METRICS)
