"""Numbers for Prometheus. They name no repository, person or issue, so that all may read them.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from bot.storage.history import Totals

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
ACTIVE: Final = ("queued", "running", "waiting")

Labels = Mapping[str, str]
Samples = Iterable[tuple[Labels, float]]


def render_metrics(totals: Totals | None, deliveries: Mapping[int, int]) -> str:
    """The page. `totals` is None while Redis does not answer.

    `deliveries` counts webhooks by the HTTP status that this process answered them with.
    """
    parts = [
        _render_metric("redis_up", "gauge", "Whether Redis answers.", [({}, totals is not None)]),
        _render_metric(
            "webhooks_total",
            "counter",
            "Webhooks that this process answered, by HTTP status.",
            [({"status": str(status)}, count) for status, count in sorted(deliveries.items())],
        ),
    ]
    if totals is not None:
        parts += _render_runs(totals)
    return "".join(parts)


def _render_runs(totals: Totals) -> list[str]:
    active: Counter[str] = totals.active
    return [
        _render_metric(
            "runs",
            "gauge",
            "Runs that are not finished.",
            [({"state": state}, active[state]) for state in ACTIVE],
        ),
        _render_metric(
            "queue_oldest_seconds",
            "gauge",
            "How long the run that waits longest for a worker has done so.",
            [({}, totals.oldest)],
        ),
        _render_metric(
            "runs_ended_total",
            "counter",
            "Runs that are finished, by how they ended.",
            [({"end": end}, count) for end, count in sorted(totals.ended.items())],
        ),
        _render_metric(
            "run_seconds_total",
            "counter",
            "How long runs took that came to an answer.",
            [({}, totals.seconds)],
        ),
        _render_metric(
            "dollars_total",
            "counter",
            "What finished runs spent at models, at list prices.",
            [({}, totals.dollars)],
        ),
    ]


def _render_metric(name: str, kind: str, help_text: str, samples: Samples) -> str:
    lines = [f"# HELP capuchin_{name} {help_text}", f"# TYPE capuchin_{name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
        lines.append(f"capuchin_{name}{{{inside}}} {value:.10g}" if inside
                     else f"capuchin_{name} {value:.10g}")  # fmt: skip
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
