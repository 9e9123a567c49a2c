"""Metrics for Prometheus. They name no repository, person or issue: anyone may read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import generate_latest
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


class Room(NamedTuple):
    """What workers' machines keep for later runs."""

    uses: Sequence[DiskUse] = ()
    evicted: Mapping[str, int] = {}


def render_metrics(
    totals: Totals | None,
    workers: Sequence[WorkerState],
    measured: Measurements,
    deliveries: Mapping[int, int],
    room: Room,
) -> str:
    """The page. `totals` is None while Redis does not answer; `workers` are the living ones.

    `deliveries` counts webhooks by the HTTP status that this process answered them with.
    """
    text = generate_latest(_Scrape(totals, workers, measured, deliveries, room)).decode()
    return text.replace(".0\n", "\n")  # whole numbers stay whole, as scripts that read them expect


@dataclass(frozen=True, eq=False)
class _Scrape(Collector):
    totals: Totals | None
    workers: Sequence[WorkerState]
    measured: Measurements
    deliveries: Mapping[int, int]
    room: Room

    def collect(self) -> Iterator[Metric]:
        yield _gauge("redis_up", "Whether Redis answers.", float(self.totals is not None))
        text = "Webhooks that this process answered, by HTTP status."
        answers = {str(status): count for status, count in sorted(self.deliveries.items())}
        yield _split(CounterMetricFamily, "webhooks", text, "status", answers)
        if self.totals is not None:
            yield from _collect_workers(self.workers)
            yield from _collect_runs(self.totals)
            yield from _collect_gauges(self.measured.gauges)
            sums = self.measured.histograms
            text = "How often a worker lost a run that it worked on: it was silent for too long."
            yield _counter("leases_lost", text, sums.get(LEASES_LOST, 0))
            text = "How often the archive did not take the bundle of an ended run."
            yield _counter("archive_failures", text, sums.get(ARCHIVE_FAILURES, 0))
            for histogram in HISTOGRAMS:
                yield _collect_histogram(histogram, sums)
        yield from _collect_room(self.room)


def _collect_room(room: Room) -> Iterator[Metric]:
    kept, limits = Counter[str](), Counter[str]()
    for use in room.uses:
        kept.update(use.kept)
        limits.update(use.limits)
    text = "What the workers' machines keep for later runs."
    yield _split(GaugeMetricFamily, "kept_bytes", text, "of", dict(sorted(kept.items())))
    text = "The most that all machines together may keep."
    yield _split(GaugeMetricFamily, "limit_bytes", text, "of", dict(sorted(limits.items())))
    text, evicted = "What was least used and was deleted.", dict(sorted(room.evicted.items()))
    yield _split(CounterMetricFamily, "evicted_bytes", text, "of", evicted)


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
    active = {state: totals.active[state] for state in ("queued", "running", "waiting")}
    yield _split(GaugeMetricFamily, "runs", "Runs that are not finished.", "state", active)
    text = "For how long the oldest queued run has waited for a worker."
    yield _gauge("queue_oldest_seconds", text, totals.oldest)
    yield _gauge("leases", "Runs that a worker holds the lease of.", totals.leased)
    ended, text = dict(sorted(totals.ended.items())), "Finished runs, by outcome."
    yield _split(CounterMetricFamily, "runs_ended", text, "end", ended)
    yield _counter("run_seconds", "Duration of all runs that gave an answer.", totals.seconds)
    text = "Cost of model calls of finished runs, at list prices."
    yield _counter("dollars", text, totals.dollars)


def _collect_gauges(gauges: Sequence[Mapping[str, float]]) -> Iterator[Metric]:
    """The sum over all workers, or the value of the worst one."""
    states = {"busy": BUSY_CONTAINERS, "idle": IDLE_CONTAINERS}
    containers = {state: sum(g.get(key, 0) for g in gauges) for state, key in states.items()}
    text = "Warm containers or pods of the workers."
    yield _split(GaugeMetricFamily, "sandbox_containers", text, "state", containers)
    for key, name, help_text in (
        (GITHUB_REMAINING, "github_remaining", "Requests that GitHub still allows in this hour"),
        (DISK_FREE, "disk_free_bytes", "Free space at CAPUCHIN_DATA_DIR"),
    ):
        known = [each[key] for each in gauges if key in each]
        yield _least(name, f"{help_text}, where it is least; absent: not known.", known)
    free = [
        each[DISK_FREE] / each[DISK_SIZE]
        for each in gauges
        if DISK_FREE in each and each.get(DISK_SIZE)
    ]
    yield _least("disk_free_ratio", "Free part of that disk, where it is least: 0 to 1.", free)


def _least(name: str, help_text: str, values: Sequence[float]) -> Metric:
    family = GaugeMetricFamily(f"capuchin_{name}", help_text)
    if values:
        family.add_metric([], round(min(values), 4))
    return family


def _collect_histogram(histogram: Histogram, sums: Mapping[str, float]) -> Metric:
    family = HistogramMetricFamily(histogram.name, histogram.help, labels=histogram.labels)
    bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
    for series in read_series(histogram, sums):
        buckets = list(zip(bounds, accumulate(series.counts), strict=True))
        family.add_metric(series.labels, buckets, round(series.sum, 6))
    return family


def _split(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    help_text: str,
    label: str,
    values: Mapping[str, float],
) -> Metric:
    family = kind(f"capuchin_{name}", help_text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"capuchin_{name}", help_text, value=value)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(f"capuchin_{name}", help_text, value=value)
