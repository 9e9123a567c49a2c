"""`capuchin learn train` and `capuchin learn judge`."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Final

from bot.cli.terminal import printable
from pipeline.codebase.text import pluralize
from pipeline.evaluation.dataset import BadData
from pipeline.learning.curves import write_training_report
from pipeline.learning.filtering import OUTCOME, POLICY, PROCESS, read_filtered
from pipeline.learning.interpreter import (
    CONFIG,
    TrainedKind,
    TrainingConfig,
    find_interpreter,
    read_training,
    score_rows,
    train,
)
from pipeline.learning.judging import Level, judge, list_score_requests, render_gains

_FILES: Final[dict[TrainedKind, str]] = {"policy": POLICY, "prm": PROCESS, "orm": OUTCOME}
_LEVELS: Final[dict[str, tuple[Level, ...]]] = {"prm": ("files", "places"), "orm": ("edits",)}


def run_train(args: argparse.Namespace) -> None:
    """Train, and write the report with the curve beside the adapter.

    Raises:
        BadData: the data or the interpreter cannot be used.
        TrainerFailed, OSError: call again to go on.
    """
    if args.epochs < 1 or args.max_tokens < 1 or not 0 <= args.learning_rate < 1:
        raise BadData("--epochs and --max-tokens are at least 1, --learning-rate is below 1.")
    if not (args.base / "config.json").is_file():
        raise BadData(f"{args.base} is no folder of a model: it has no config.json.")
    python = find_interpreter(args.python)
    read_filtered(args.data)
    kind: TrainedKind = args.kind
    rows: Path = args.data / _FILES[kind]
    config = TrainingConfig(
        kind=kind,
        rows=str(rows.resolve()),
        digest=_digest(rows),
        base=str(args.base.resolve()),
        epochs=args.epochs,
        learning_rate=args.learning_rate,
        max_tokens=args.max_tokens,
    )
    found = train(python, config, args.out)
    write_training_report(args.out, found)
    sys.stdout.write(
        f"Trained on {pluralize(found.rows, 'row')} in {pluralize(found.steps, 'step')}; "
        f"see {args.out}/report.md.\n"
    )


def run_judge(args: argparse.Namespace) -> None:
    """Score the candidates kept apart, and print what the model gains.

    Raises:
        BadData: the data or the training cannot be used, or do not belong together.
        TrainerFailed, OSError: call again to go on.
    """
    training = read_training(args.trained)
    if training.kind == "policy":
        raise BadData("A policy is judged by `capuchin evaluate --solve`, not by its scores.")
    config = TrainingConfig.model_validate_json((args.trained / CONFIG).read_bytes())
    if config.digest != _digest(args.data / _FILES[training.kind]):
        raise BadData(f"{args.trained} was trained on other data: its test issues are not apart.")
    data = read_filtered(args.data)
    requests = list_score_requests(data, training.kind)
    if not requests:
        raise BadData(f"{args.data} holds no candidate that was kept apart.")
    scores = score_rows(find_interpreter(args.python), requests, args.trained)
    gains = judge(data, scores, _LEVELS[training.kind])
    text = json.dumps([gain.model_dump(mode="json") for gain in gains], indent=1) + "\n"
    (args.trained / "judged.json").write_text(text, encoding="utf-8")
    table = render_gains(gains, f"the {training.kind.upper()}")
    (args.trained / "judged.md").write_text(table, encoding="utf-8")
    sys.stdout.write(text if args.json else printable(table))


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        raise BadData(f"{path} cannot be read.") from None
