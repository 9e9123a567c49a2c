"""Starts the trainer in its own interpreter; its report."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pipeline.lab.dataset import BadData
from pipeline.lab.render import Axis, line_chart
from sandbox.frozen import Frozen

TrainedKind = Literal["policy", "prm", "orm"]
CONFIG, TRAINING = "config.json", "training.json"
_ROOT = Path(__file__).parents[2]
_RUN = (
    "import sys; from pathlib import Path; sys.path.append(sys.argv[1]); "
    "from pipeline.lab.learning.trainer.{module} import main; "
    "sys.exit(main(*map(Path, sys.argv[2:])))"
)
"""Appended to the path, our packages do not shadow the interpreter's own."""


class TrainerFailed(Exception):
    """The trainer ended with an error, which it has printed."""


class TrainingConfig(Frozen):
    """What is trained, on which rows; saved, so that a killed training goes on as it began."""

    kind: TrainedKind
    rows: str
    digest: str
    """The SHA-256 of that file."""
    base: str
    epochs: int
    learning_rate: float
    """0: the default of the kind."""
    max_tokens: int


class Training(Frozen):
    kind: TrainedKind
    base: str
    rows: int
    too_long: int
    """Rows left out because they are longer than `max_tokens`."""
    steps: int
    resumed_from: int
    """The step of the checkpoint with which it went on; 0: from the start."""
    seconds: float
    """Of the last process."""
    device: str
    learning_rate: float
    losses: tuple[tuple[int, float], ...]
    """Step and loss."""
    libraries: dict[str, str]


def find_interpreter(python: Path | None) -> str:
    """The interpreter to train with, by default our own.

    Raises:
        BadData: it cannot be started, or has no TRL.
    """
    found = str(python) if python else sys.executable
    check = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    try:
        ended = subprocess.run(
            [found, "-c", check, "torch", "trl", "peft", "datasets"], check=False
        )
    except OSError as error:
        raise BadData(f"{found} cannot be started: {error.strerror}.") from None
    if ended.returncode:
        raise BadData(
            f"{found} has no torch, trl, peft and datasets. Make an environment with them (python "
            "-m venv V; V/bin/pip install -r deploy/learn-cpu.lock) and name it: --python "
            "V/bin/python."
        )
    return found


def train(python: str, config: TrainingConfig, out: Path) -> Training:
    """Train into `out`, or go on with what is there; return at once if it is finished.

    The trainer prints its progress on standard error.

    Raises:
        BadData: `out` holds another training.
        TrainerFailed: the trainer ended with an error.
        OSError: `out` cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    text = config.model_dump_json(indent=1) + "\n"
    saved = out / CONFIG
    if saved.exists() and saved.read_text(encoding="utf-8") != text:
        raise BadData(
            f"{out} holds a training with another configuration (see {CONFIG}): give another --out."
        )
    saved.write_text(text, encoding="utf-8")
    if not (out / TRAINING).exists():
        run_module(python, "train", [out])
    return read_training(out)


def read_training(out: Path) -> Training:
    """What the training in `out` has done. Raises BadData if it is not finished."""
    try:
        return Training.model_validate_json((out / TRAINING).read_bytes())
    except (OSError, ValueError):
        raise BadData(f"{out} holds no finished training.") from None


def score_rows(python: str, rows: Sequence[dict[str, object]], out: Path) -> dict[str, float]:
    """The trained model's score of each row, by its `key`; those already saved are not repeated.

    Raises:
        TrainerFailed: the trainer ended with an error; call again to go on.
    """
    requests, scores = out / "score-requests.jsonl", out / "scores.jsonl"
    requests.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run_module(python, "score", [requests, scores, out])
    lines = scores.read_text(encoding="utf-8").splitlines()
    found = {row["key"]: float(row["score"]) for row in map(json.loads, lines)}
    return {str(row["key"]): found[str(row["key"])] for row in rows}


def run_module(python: str, module: str, paths: Sequence[Path]) -> None:
    """Run a module of the trainer and wait. Raises TrainerFailed."""
    command = [python, "-c", _RUN.format(module=module), str(_ROOT), *map(str, paths)]
    ended = subprocess.run(command, check=False)
    if ended.returncode:
        raise TrainerFailed(f"The trainer ended with status {ended.returncode}.")


REPORT, MARKDOWN, CURVE = "report.json", "report.md", "loss.svg"
_TICKS = 5


def write_training_report(out: Path, training: Training) -> None:
    """Write `report.json`, `report.md` and `loss.svg` into `out`. Raises OSError."""
    (out / REPORT).write_text(training.model_dump_json(indent=1) + "\n", encoding="utf-8")
    (out / CURVE).write_text(render_curve(training), encoding="utf-8")
    (out / MARKDOWN).write_text(_render_markdown(training), encoding="utf-8")


def render_curve(training: Training) -> str:
    """The loss by step, as SVG; of many steps, evenly spaced ones."""
    every = max(1, len(training.losses) // 60)
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
