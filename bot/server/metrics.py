"""Metrics for Prometheus. They name no repository, person or issue: anyone may read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from bot.data.run import Lane
from bot.storage.history import Totals
from bot.storage.workers import DiskUse, Measurements, WorkerState
from bot.telemetry.measurements import (
    ARCHIVE_FAILURES,
    BUSY_CONTAINERS,
    DISK_FREE,
    DISK_SIZE,
    GITHUB_REMAINING,
    HISTOGRAMS,
    IDLE_CONTAINERS,
    LEASES_LOST,
    Histogram,
    read_series,
)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, eq=False)
class Room(Collector):
    """What workers' machines keep for runs to come."""

    uses: Sequence[DiskUse] = ()
    """Of each machine."""
    evicted: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes that had to go, by kind."""

    def collect(self) -> Iterator[Metric]:
        """How full it is, and what was deleted."""
        for what, text in (
            ("kept", "What the workers' machines keep for runs to come."),
            ("limit", "The most that they may keep, all machines together."),
        ):
            found = GaugeMetricFamily(f"capuchin_{what}_bytes", text, labels=["of"])
            sums = Counter[str]()
            for use in self.uses:
                sums.update(use.kept if what == "kept" else use.limits)
            for kind, size in sorted(sums.items()):
                found.add_metric([kind], size)
            yield found
        gone = CounterMetricFamily(
            "capuchin_evicted_bytes", "What was least used and had to go.", labels=["of"]
        )
        for kind, size in sorted(self.evicted.items()):
            gone.add_metric([kind], size)
        yield gone


def render_metrics(
    totals: Totals | None,
    workers: Sequence[WorkerState],
    measured: Measurements,
    deliveries: Mapping[int, int],
    room: Room,
) -> str:
    """The page. `totals` is None while Redis does not answer; `workers` are those that live.

    `deliveries` counts webhooks by the HTTP status that this process answered them with.
    """
    registry = CollectorRegistry()
    registry.register(_BotCollector(totals, workers, measured, deliveries))
    registry.register(room)
    text = generate_latest(registry).decode()
    return text.replace(".0\n", "\n")  # whole numbers stay whole, as scripts that read them expect


class _BotCollector(Collector):
    """The metrics of one scrape."""

    def __init__(
        self,
        totals: Totals | None,
        workers: Sequence[WorkerState],
        measured: Measurements,
        deliveries: Mapping[int, int],
    ) -> None:
        self._measured = measured
        self._totals = totals
        self._workers = workers
        self._deliveries = deliveries

    def collect(self) -> Iterator[Metric]:
        yield _gauge("redis_up", "Whether Redis answers.", float(self._totals is not None))
        webhooks = CounterMetricFamily(
            "capuchin_webhooks",
            "Webhooks that this process answered, by HTTP status.",
            labels=["status"],
        )
        for status, count in sorted(self._deliveries.items()):
            webhooks.add_metric([str(status)], count)
        yield webhooks
        if self._totals is not None:
            yield from _collect_workers(self._workers)
            yield from _collect_runs(self._totals)
            yield from _collect_gauges(self._measured.gauges)
            yield _counter(
                "leases_lost",
                "How often a worker lost a run that it worked on: it was silent for too long.",
                self._measured.histograms.get(LEASES_LOST, 0),
            )
            yield _counter(
                "archive_failures",
                "How often the archive did not take the bundle of an ended run.",
                self._measured.histograms.get(ARCHIVE_FAILURES, 0),
            )
            for histogram in HISTOGRAMS:
                yield _collect_histogram(histogram, self._measured.histograms)


def _collect_workers(workers: Sequence[WorkerState]) -> Iterator[Metric]:
    yield _gauge("workers", "Workers that were heard of in the last half minute.", len(workers))
    slots = GaugeMetricFamily(
        "capuchin_worker_slots",
        "Runs that the workers can work on, by lane: of issues, and on our pull requests.",
        labels=["lane", "state"],
    )
    for lane in Lane:
        busy = sum(worker.busy.get(lane, 0) for worker in workers)
        slots.add_metric([lane, "busy"], busy)
        slots.add_metric([lane, "free"], sum(w.slots.get(lane, 0) for w in workers) - busy)
    yield slots


def _collect_runs(totals: Totals) -> Iterator[Metric]:
    active = GaugeMetricFamily("capuchin_runs", "Runs that are not finished.", labels=["state"])
    for state in ("queued", "running", "waiting"):
        active.add_metric([state], totals.active[state])
    yield active
    yield _gauge(
        "queue_oldest_seconds",
        "For how long the oldest queued run has waited for a worker.",
        totals.oldest,
    )
    yield _gauge("leases", "Runs that a worker holds the lease of.", totals.leased)
    ended = CounterMetricFamily("capuchin_runs_ended", "Finished runs, by outcome.", labels=["end"])
    for end, count in sorted(totals.ended.items()):
        ended.add_metric([end], count)
    yield ended
    yield _counter("run_seconds", "Duration of all runs that gave an answer.", totals.seconds)
    yield _counter(
        "dollars", "Cost of model calls of finished runs, at list prices.", totals.dollars
    )


def _collect_gauges(gauges: Sequence[Mapping[str, float]]) -> Iterator[Metric]:
    """Of several workers the sum, or the one that is worst off."""
    containers = GaugeMetricFamily(
        "capuchin_sandbox_containers", "Warm containers or pods of the workers.", labels=["state"]
    )
    for state, key in (("busy", BUSY_CONTAINERS), ("idle", IDLE_CONTAINERS)):
        containers.add_metric([state], sum(each.get(key, 0) for each in gauges))
    yield containers
    for key, name, help_text in (
        (GITHUB_REMAINING, "github_remaining", "Requests that GitHub still allows in this hour"),
        (DISK_FREE, "disk_free_bytes", "Free space at CAPUCHIN_DATA_DIR"),
    ):
        known = [each[key] for each in gauges if key in each]
        family = GaugeMetricFamily(
            f"capuchin_{name}", f"{help_text}, where it is least; absent: not known."
        )
        if known:
            family.add_metric([], min(known))
        yield family
    free = [
        each[DISK_FREE] / each[DISK_SIZE]
        for each in gauges
        if DISK_FREE in each and each.get(DISK_SIZE)
    ]
    family = GaugeMetricFamily(
        "capuchin_disk_free_ratio", "Free part of that disk, where it is least: 0 to 1."
    )
    if free:
        family.add_metric([], round(min(free), 4))
    yield family


def _collect_histogram(histogram: Histogram, sums: Mapping[str, float]) -> Metric:
    family = HistogramMetricFamily(histogram.name, histogram.help, labels=histogram.labels)
    bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    for series in read_series(histogram, sums):
        buckets = list(zip(bounds, accumulate(series.counts), strict=True))
        family.add_metric(series.labels, buckets, round(series.sum, 6))
    return family


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"capuchin_{name}", help_text, value=value)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(f"capuchin_{name}", help_text, value=value)
