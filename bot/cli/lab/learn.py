"""`capuchin learn`: collect solved issues, filter them, train on them, judge what was gained."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bot.cli import FAILED, USAGE
from bot.cli.learn.collect import run_collect
from bot.cli.learn.filter import run_filter
from bot.cli.learn.train import run_judge, run_train
from pipeline.errors import OtherFormat
from pipeline.evaluation.dataset import BadData
from pipeline.learning.interpreter import TrainerFailed
from sandbox.errors import SandboxError

if TYPE_CHECKING:
    from bot.cli import Subparsers

_EPOCHS, _TOKENS = 2, 16_384


def register(subparsers: Subparsers) -> None:
    """Add the command and its actions to the parser."""
    parser = subparsers.add_parser(
        "learn",
        help="train models on solved issues",
        description="Trains a policy, a process and an outcome reward model (SWE-Reasoner). See "
        "docs/learning.md. Exit codes: 0 done, 1 failed, 2 wrong usage.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _register_collect(actions)
    _register_filter(actions)
    _register_train(actions)
    _register_judge(actions)


def _register_collect(actions: Subparsers) -> None:
    parser = actions.add_parser("collect", help="add solved issues and attempts at them to DATA")
    parser.add_argument("data", type=Path, metavar="DATA", help="a folder, new or collected into")
    parser.add_argument(
        "--runs", type=Path, metavar="DIR",
        help="attempts of our own runs, each named after a collected issue",
    )  # fmt: skip
    parser.add_argument(
        "--outcomes", metavar="OWNER/NAME", default="",
        help="with --runs: ask GitHub what became of their pull requests in this repository",
    )  # fmt: skip
    parser.add_argument(
        "--pulls", type=Path, metavar="FILE", help="JSON lines: merged pull requests with issues"
    )
    parser.add_argument(
        "--issues", type=Path, metavar="FILE",
        help="JSON lines: closed issues; their edits are looked up in the clones of --trees",
    )  # fmt: skip
    parser.add_argument("--trees", type=Path, metavar="DIR", help="a folder of bare clones")
    parser.add_argument(
        "--instances", type=Path, metavar="FILE", help="solved issues in SWE-bench's format"
    )
    parser.add_argument(
        "--predictions", type=Path, metavar="DIR",
        help="with --instances: public systems' edits",
    )  # fmt: skip
    parser.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="with --predictions: JSON that maps a system to what it resolves (default: no labels, "
        "which `learn filter --trees` finds by the benchmark's tests)",
    )  # fmt: skip
    parser.set_defaults(run=functools.partial(_run, run_collect))


def _register_filter(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "filter", help="keep what passes the four checks, split it, and write training rows"
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="a folder of `learn collect`")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="for the rows")
    parser.add_argument(
        "--trees", type=Path, metavar="DIR",
        help="a folder of bare clones: run the scripts of our attempts, and the benchmark's tests, "
        "in the sandbox",
    )  # fmt: skip
    parser.add_argument(
        "--easy", type=Path, metavar="FILE",
        help="a JSON list of issues that a base model solves at once: not for the policy",
    )  # fmt: skip
    parser.add_argument(
        "--until", metavar="DATE", default="",
        help="training ends before it (ISO 8601; default: the median date of the test)",
    )  # fmt: skip
    parser.set_defaults(run=functools.partial(_run, run_filter))


def _register_train(actions: Subparsers) -> None:
    parser = actions.add_parser("train", help="train a LoRA adapter; call again to go on")
    parser.add_argument("kind", choices=("policy", "prm", "orm"))
    parser.add_argument("data", type=Path, metavar="DATA", help="a folder of `learn filter`")
    parser.add_argument(
        "--base", type=Path, metavar="MODEL", required=True, help="the base model's folder"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="for the adapter")
    _add_python(parser)
    parser.add_argument("--epochs", type=int, metavar="N", default=_EPOCHS)
    parser.add_argument("--learning-rate", type=float, metavar="RATE", default=0.0)
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", default=_TOKENS, help="longer rows are left out"
    )
    parser.set_defaults(run=functools.partial(_run, run_train))


def _register_judge(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "judge", help="compare a reward model with our confidence on issues kept apart"
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="a folder of `learn filter`")
    parser.add_argument("trained", type=Path, metavar="TRAINED", help="the --out of `learn train`")
    _add_python(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=functools.partial(_run, run_judge))


def _add_python(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--python", type=Path, metavar="PYTHON",
        help="an interpreter with deploy/learn-cpu.lock (default: this one)",
    )  # fmt: skip


def _run(action: Callable[[argparse.Namespace], None], args: argparse.Namespace) -> int:
    """Run an action and print its errors as sentences."""
    try:
        action(args)
    except BadData as problem:
        sys.stderr.write(f"capuchin: {problem}\n")
        return USAGE
    except (TrainerFailed, OtherFormat, SandboxError, OSError) as error:
        sys.stderr.write(f"capuchin: {error}\n")
        sys.stderr.write("Run it again with the same folder to go on.\n")
        return FAILED
    return 0
