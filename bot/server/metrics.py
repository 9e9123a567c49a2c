"""Metrics for Prometheus. They name no repository, person or issue: anyone may read them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bot.data.run import Lane
from bot.storage.history import Totals
from bot.storage.workers import WorkerState


def render_metrics(
    totals: Totals | None, workers: Sequence[WorkerState], deliveries: Mapping[int, int]
) -> str:
    """The page. `totals` is None while Redis does not answer; `workers` are the living ones.

    `deliveries` counts webhooks by the HTTP status that this process answered them with.
    """
    text = generate_latest(_Scrape(totals, workers, deliveries)).decode()
    return text.replace(".0\n", "\n")  # whole numbers stay whole, as scripts that read them expect


@dataclass(frozen=True, eq=False)
class _Scrape(Collector):
    totals: Totals | None
    workers: Sequence[WorkerState]
    deliveries: Mapping[int, int]

    def collect(self) -> Iterator[Metric]:
        yield _gauge("redis_up", "Whether Redis answers.", float(self.totals is not None))
        text = "Webhooks that this process answered, by HTTP status."
        answers = {str(status): count for status, count in sorted(self.deliveries.items())}
        yield _split(CounterMetricFamily, "webhooks", text, "status", answers)
        if self.totals is not None:
            yield from _collect_workers(self.workers)
            yield from _collect_runs(self.totals)


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
