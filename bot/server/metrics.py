"""Metrics for Prometheus. They name no repository, person or issue: anyone may read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bot.storage.history import Totals

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
ACTIVE: Final = ("queued", "running", "waiting")


def render_metrics(totals: Totals | None, deliveries: Mapping[int, int]) -> str:
    """The page. `totals` is None while Redis does not answer.

    `deliveries` counts webhooks by the HTTP status that this process answered them with.
    """
    registry = CollectorRegistry()
    registry.register(_BotCollector(totals, deliveries))
    text = generate_latest(registry).decode()
    return text.replace(".0\n", "\n")  # whole numbers stay whole, as scripts that read them expect


class _BotCollector(Collector):
    """The metrics of one scrape."""

    def __init__(self, totals: Totals | None, deliveries: Mapping[int, int]) -> None:
        self._totals = totals
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
            yield from _collect_runs(self._totals)


def _collect_runs(totals: Totals) -> Iterator[Metric]:
    active = GaugeMetricFamily("capuchin_runs", "Runs that are not finished.", labels=["state"])
    for state in ACTIVE:
        active.add_metric([state], totals.active[state])
    yield active
    yield _gauge(
        "queue_oldest_seconds",
        "For how long the oldest queued run has waited for a worker.",
        totals.oldest,
    )
    ended = CounterMetricFamily("capuchin_runs_ended", "Finished runs, by outcome.", labels=["end"])
    for end, count in sorted(totals.ended.items()):
        ended.add_metric([end], count)
    yield ended
    yield _counter("run_seconds", "Duration of all runs that gave an answer.", totals.seconds)
    yield _counter(
        "dollars", "Cost of model calls of finished runs, at list prices.", totals.dollars
    )


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"capuchin_{name}", help_text, value=value)


def _counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(f"capuchin_{name}", help_text, value=value)
