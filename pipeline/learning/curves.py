"""The report of a training: JSON, Markdown, and the curve of the loss."""

from __future__ import annotations

from pathlib import Path

from pipeline.evaluation.plots import Axis, line_chart
from pipeline.learning.interpreter import Training

REPORT, MARKDOWN, CURVE = "report.json", "report.md", "loss.svg"
_MOST_POINTS = 60
_TICKS = 5


def write_training_report(out: Path, training: Training) -> None:
    """Write `report.json`, `report.md` and `loss.svg` into `out`. Raises OSError."""
    (out / REPORT).write_text(training.model_dump_json(indent=1) + "\n", encoding="utf-8")
    (out / CURVE).write_text(render_curve(training), encoding="utf-8")
    (out / MARKDOWN).write_text(_render_markdown(training), encoding="utf-8")


def render_curve(training: Training) -> str:
    """The loss by step, as SVG; of many steps, evenly spaced ones."""
    every = max(1, len(training.losses) // _MOST_POINTS)
    points = [(float(step), loss) for step, loss in training.losses[::every]]
    last, highest = max(training.steps, 1), max([loss for _, loss in points], default=0) or 1.0
    return line_chart(
        f"Training of the {training.kind}",
        Axis("step", 0, last, tuple(round(last * n / _TICKS) for n in range(_TICKS + 1))),
        Axis("loss", 0, highest, tuple(round(highest * n / _TICKS, 2) for n in range(_TICKS + 1))),
        {"loss": points},
    )


def _render_markdown(training: Training) -> str:
    first, last = (training.losses[0][1], training.losses[-1][1]) if training.losses else (0, 0)
    resumed = f" It went on from step {training.resumed_from}." if training.resumed_from else ""
    versions = ", ".join(f"{name} {number}" for name, number in training.libraries.items())
    return (
        f"# Training of the {training.kind}\n\n"
        f"{training.rows} rows, {training.steps} steps at a learning rate of "
        f"{training.learning_rate:g}, on {training.device}; the last process took "
        f"{training.seconds:.0f} s.{resumed} {training.too_long} rows were too long and left "
        f"out.\n\nLoss: {first:.3f} at first, {last:.3f} at last. Versions: {versions}.\n\n"
        f"![The loss by step]({CURVE})\n"
    )
