"""`capuchin evaluate`: measures how well edits are chosen, or relevant files are found."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from bot.cli import Subparsers
from bot.cli.recall import measure_recall, write_recall
from bot.cli.terminal import printable, silence_retries
from bot.settings import Settings, SettingsError
from pipeline.codebase.git import GitFailed
from pipeline.evaluation.bundles import read_runs
from pipeline.evaluation.dataset import (
    BadData,
    read_dataset,
    read_instances,
    read_references,
    read_samples,
)
from pipeline.evaluation.predictions import Evaluation, evaluate
from pipeline.evaluation.report import render_markdown, to_json, write_report
from pipeline.evaluation.runs import evaluate_runs
from pipeline.models.base import ModelError

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2


def register(subparsers: Subparsers) -> None:
    """Add the command to `capuchin`."""
    parser = subparsers.add_parser(
        "evaluate",
        description="Reports random, oracle, the best member and every selection method, with "
        "intervals. Calls no model (except the scout model with --trees) and runs no tests. "
        "Exit codes: 0 done, 1 failed, 2 wrong usage.",
    )
    parser.add_argument(
        "instances", type=Path, metavar="INSTANCES", help="SWE-bench instances: .jsonl or .jsonl.gz"
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--predictions", type=Path, metavar="DIR", help="a folder of MEMBER.jsonl[.gz], or one file"
    )
    source.add_argument(
        "--runs", type=Path, metavar="DIR",
        help="a folder of run folders or bundles, each named after its instance",
    )  # fmt: skip
    source.add_argument(
        "--trees", type=Path, metavar="DIR",
        help="a folder of bare clones (owner+name/repo, owner__name.git, ...): measures how often "
        "the context contains every file that the instance's own edit changes; calls the "
        "configured scout model",
    )  # fmt: skip
    parser.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="JSON: maps a member to its resolved instances; with --runs, maps an instance to the "
        "numbers (from 0) of the samples that resolve it, or to the resolving revisions of each "
        "sample (default: labels.json in the folder of runs)",
    )  # fmt: skip
    parser.add_argument(
        "--ensemble", metavar="FILE:NAME", help="only the members in list NAME of FILE"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where to write the report, figures and chosen edits",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=run_command)


def run_command(args: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    if args.trees:
        return _measure_recall(args)
    try:
        found = _evaluate_runs(args) if args.runs else _evaluate_predictions(args)
    except BadData as problem:
        sys.stderr.write(f"capuchin: {problem}\n")
        return USAGE
    if args.out:
        try:
            write_report(args.out, found.report, found.chosen)
        except OSError as error:
            sys.stderr.write(f"capuchin: cannot write {args.out}: {error.strerror}.\n")
            return FAILED
        sys.stderr.write(f"See {args.out}/report.md.\n")
    if args.json:
        sys.stdout.write(json.dumps(to_json(found.report), indent=1) + "\n")
    elif not args.out:
        sys.stdout.write(printable(render_markdown(found.report)))
    return DONE


def _measure_recall(args: argparse.Namespace) -> int:
    silence_retries()
    try:
        settings = Settings.from_env()
        found = asyncio.run(measure_recall(args.instances, args.trees, args.out, settings))
        write_recall(found, args.out, as_json=args.json)
    except (BadData, SettingsError) as problem:
        sys.stderr.write(f"capuchin: {problem}\n")
        return USAGE
    except (ModelError, GitFailed, OSError) as error:
        sys.stderr.write(f"capuchin: {type(error).__name__}: {error}\n")
        return FAILED
    return DONE


def _evaluate_predictions(args: argparse.Namespace) -> Evaluation:
    if args.labels is None:
        raise BadData(
            "--predictions needs --labels, which lists the edits that resolve their instances."
        )
    data = read_dataset(args.instances, args.predictions, args.labels, args.ensemble)
    sys.stderr.write("Normalising and comparing the edits …\n")
    return evaluate(data)


def _evaluate_runs(args: argparse.Namespace) -> Evaluation:
    if args.ensemble:
        raise BadData("--ensemble selects members of --predictions and cannot be used with --runs.")
    known = {instance.instance_id: instance.repo for instance in read_instances(args.instances)}
    labels = read_samples(args.labels or args.runs / "labels.json")
    runs = asyncio.run(read_runs(args.runs))
    for run in runs:
        if run.instance not in known:
            raise BadData(
                f"{args.instances} has no instance {run.instance}, but a run has this name."
            )
    references = read_references(args.instances)
    return evaluate_runs(runs, labels, repositories=known, references=references)
