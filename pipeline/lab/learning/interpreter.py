"""Starts the trainer in its own interpreter; its report."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from pipeline.lab.dataset import BadData
from pipeline.lab.render import line_chart, table
from sandbox.frozen import Frozen

TrainedKind = Literal["policy", "prm", "orm"]
CONFIG, TOKENS, TRAINING = "config.json", "tokens.json", "training.json"
_ROOT = Path(__file__).parents[3]
_ENTRY = Path(__file__).parent / "trainer/entry.py"


class TrainerFailed(Exception):
    """The trainer ended with an error, which it has printed."""


class TrainingConfig(Frozen):
    """What is trained, on which rows; saved, so that a killed training goes on as it began."""

    kind: TrainedKind
    rows: str
    digest: str
    """The SHA-256 of that file."""
    base: str
    epochs: int = Field(2, ge=1)
    learning_rate: float = Field(0.0, ge=0, lt=1)
    """0: the default of the kind."""
    max_tokens: int = Field(0, ge=0)
    """0: the base model's window."""
    batch: int = Field(2, ge=1)
    """Rows that each process takes at once."""
    rank: int = Field(16, ge=1)
    """The rank of the LoRA adapter."""
    four_bit: bool = False
    full: bool = False
    """Whether all weights are trained, without an adapter."""
    thoughts: bool = True
    """Whether a policy learns what was thought; false: a base model that thinks has its switch
    off."""
    report_to: Literal["none", "tensorboard", "wandb"] = "none"
    processes: int | None = Field(None, ge=1, exclude=True)
    """That share the work on this machine; None: one for each GPU. No part of what is trained."""
    node: str = Field("1/1", pattern=r"^[1-9]\d{0,3}/[1-9]\d{0,3}$", exclude=True)
    """K/N: this machine is the K-th of N that share the work."""
    meet: str = Field("", pattern=r"^[\w.-]*(:\d{1,5})?$", exclude=True)
    """HOST:PORT of the first machine, where the others find it."""

    @property
    def place(self) -> tuple[int, int]:
        """Which machine this is, and of how many."""
        number, _, of = self.node.partition("/")
        return int(number), int(of)


class Training(Frozen):
    kind: TrainedKind
    base: str
    rows: int
    max_tokens: int
    stages: dict[str, tuple[int, int, int]]
    """By stage: replies, or rows of a reward model, that are trained on, are left out because they
    end beyond `max_tokens`, and are left out for want of a thought."""
    tokens: int
    """Of all rows."""
    padding: float
    """Its share in the batches."""
    steps: int
    resumed_from: int
    """The step of the checkpoint with which it went on; 0: from the start."""
    seconds: float
    """The time of the last process."""
    device: str
    processes: int
    learning_rate: float
    losses: tuple[tuple[int, float], ...]
    """Step and loss."""
    validation: tuple[tuple[int, float], ...]
    """Step and loss on the rows kept apart, which choose nothing; empty without any."""
    libraries: dict[str, str]

    @property
    def too_long(self) -> int:
        return sum(left for _, left, _ in self.stages.values())

    @property
    def replies(self) -> int:
        return sum(map(sum, self.stages.values()))


def find_interpreter(python: Path | None, report_to: str = "none") -> str:
    """The interpreter to train with, by default our own.

    Raises:
        BadData: it cannot be started, or has no TRL or nothing that reports to `report_to`.
    """
    found = str(python) if python else sys.executable
    check = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"

    def has(*modules: str) -> bool:
        return not subprocess.run([found, "-c", check, *modules], check=False).returncode

    try:
        is_ready = has("torch", "trl", "peft", "datasets")
    except OSError as error:
        raise BadData(f"{found} cannot be started: {error.strerror}.") from None
    if not is_ready:
        raise BadData(
            f"{found} has no torch, trl, peft and datasets. Make an environment with them (python "
            "-m venv V; V/bin/pip install -r deploy/learn-cuda13.lock, or learn-cpu.lock) and name "
            "it: --python V/bin/python."
        )
    if report_to != "none" and not has(report_to):
        raise BadData(
            f"report_to: {found} has no {report_to} ({found} -m pip install {report_to})."
        )
    return found


def count_gpus(python: str) -> int:
    """The GPUs that the interpreter sees."""
    ask = "import torch; print(torch.cuda.device_count())"
    told = subprocess.run([python, "-c", ask], check=False, capture_output=True, text=True)
    return int(told.stdout or 0) if not told.returncode else 0


def train(python: str, config: TrainingConfig, out: Path, processes: int) -> Training:
    """Train into `out`, or go on with what is there; return at once if it is finished.

    The processes, here and on other machines, share the model's weights (FSDP2). The first machine
    tokenises; the others wait for that. The trainer prints its progress on standard error.

    Raises:
        BadData: `out` holds another training.
        TrainerFailed: the trainer ended with an error.
        OSError: `out` cannot be written.
    """
    number, machines = config.place
    while number > 1 and not (out / TOKENS).exists():
        time.sleep(1)
    out.mkdir(parents=True, exist_ok=True)
    text = config.model_dump_json(indent=1) + "\n"
    saved = out / CONFIG
    if not saved.exists():
        saved.write_text(text, encoding="utf-8")
    elif saved.read_text(encoding="utf-8") != text:
        raise BadData(
            f"{out} holds a training with another configuration (see {CONFIG}): give another --out."
        )
    if not (out / TOKENS).exists():
        run_trainer(python, "tokenise", [out])
    if not (out / TRAINING).exists():
        host, _, port = config.meet.partition(":")
        there = [f"--nnodes={machines}", f"--node-rank={number - 1}", f"--master-addr={host}"]
        if port:
            there.append(f"--master-port={port}")
        shared = [f"--nproc-per-node={processes}", *(there if machines > 1 else ["--standalone"])]
        run_trainer(python, "train", [out], shared if processes * machines > 1 else ())
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
    run_trainer(python, "score", [requests, scores, out])
    lines = scores.read_text(encoding="utf-8").splitlines()
    found = {row["key"]: float(row["score"]) for row in map(json.loads, lines)}
    return {str(row["key"]): found[str(row["key"])] for row in rows}


def run_trainer(
    python: str, module: str, paths: Sequence[Path], shared: Sequence[str] = ()
) -> None:
    """Run a module of the trainer and wait; `shared`: in how many processes, as torchrun's options.
    Raises TrainerFailed."""
    entry = [str(_ENTRY), str(_ROOT)]
    launcher = [*entry, "share", *shared] if shared else []
    command = [python, *launcher, *entry, module, *map(str, paths)]
    ended = subprocess.run(command, check=False)
    if ended.returncode:
        raise TrainerFailed(f"The trainer ended with status {ended.returncode}.")


REPORT, MARKDOWN, CURVE = "report.json", "report.md", "loss.svg"


def write_training_report(out: Path, training: Training, warning: str = "") -> None:
    """Write `report.json`, `report.md`, which ends with `warning`, as does the model's card, and
    `loss.svg` into `out`. Raises OSError."""
    (out / REPORT).write_text(training.model_dump_json(indent=1) + "\n", encoding="utf-8")
    (out / CURVE).write_text(render_curve(training), encoding="utf-8")
    text = _render_markdown(training) + (f"\n{warning}.\n" if warning else "")
    (out / MARKDOWN).write_text(text, encoding="utf-8")
    card = out / "adapter/README.md"  # as PEFT has written it; of a whole model there is none
    said = card.read_text(encoding="utf-8") if card.exists() else "# A policy\n"
    if warning and warning not in said:
        card.write_text(f"{said}\n{warning}.\n", encoding="utf-8")


def render_curve(training: Training) -> str:
    """The loss by step, as SVG; of many steps, evenly spaced ones."""
    every = max(1, len(training.losses) // 60)
    lines = {"loss": training.losses[::every], "validation": training.validation}
    drawn = {name: points for name, points in lines.items() if points}
    return line_chart(f"Training of the {training.kind}", "step", "loss", drawn)


def _render_markdown(training: Training) -> str:
    first, last = (training.losses[0][1], training.losses[-1][1]) if training.losses else (0, 0)
    resumed = f" It went on from step {training.resumed_from}." if training.resumed_from else ""
    shared = f" in {training.processes} processes" if training.processes > 1 else ""
    versions = ", ".join(f"{name} {number}" for name, number in training.libraries.items())
    lines = [
        f"# Training of the {training.kind}\n",
        f"{training.rows} rows, {training.steps} steps at a learning rate of "
        f"{training.learning_rate:g}, on {training.device}{shared}; the last call took "
        f"{training.seconds:.0f} s.{resumed}\n",
        f"Loss: {first:.3f} at first, {last:.3f} at last. Versions: {versions}.\n",
        f"![The loss by step]({CURVE})\n",
        f"The rows have {training.tokens:,} tokens; of the batches, {training.padding:.1%} is "
        f"padding. What ends beyond {training.max_tokens:,} tokens is left out, because a cut "
        "answer would be learnt; a base model that thinks learns no reply without a thought.\n",
        *table(
            ("stage", "trained on", "too long", "without a thought"),
            [(stage, *counts) for stage, counts in training.stages.items()],
        ),
        *(
            table(
                ("step", "validation loss"),
                [(str(step), f"{loss:.3f}") for step, loss in training.validation],
            )
            if training.validation
            else ["No row was kept apart: there is no validation loss.\n"]
        ),
    ]
    return "\n".join(lines)
