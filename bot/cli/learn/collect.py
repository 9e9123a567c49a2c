"""`capuchin learn collect`."""

from __future__ import annotations

import argparse
import asyncio
import sys

from bot.cli.learn.outcomes import load_run_outcomes
from bot.settings import Settings
from pipeline.codebase.text import pluralize
from pipeline.evaluation.dataset import BadData
from pipeline.learning.public import read_instance_issues, read_public_attempts
from pipeline.learning.pulls import CollectReport, read_history, read_pulls
from pipeline.learning.records import LearningData, read_data, write_data
from pipeline.learning.runs import read_attempts


def run_collect(args: argparse.Namespace) -> None:
    """Add what the options name to DATA, and say how much there is.

    Raises:
        BadData: an option misses another, or a file cannot be read.
        OtherFormat, OSError: see `read_attempts`, `write_data`.
    """
    _check_options(args)
    data = read_data(args.data)
    if args.pulls:
        data = _add(data, *read_pulls(args.pulls))
    if args.issues:
        data = _add(data, *asyncio.run(read_history(args.issues, args.trees)))
    if args.predictions:
        data = data.merge(read_public_attempts(args.instances, args.predictions, args.labels))
    elif args.instances:
        data = data.merge(read_instance_issues(args.instances))
    if args.runs:
        known = {one.id: one for one in data.issues}
        outcomes = load_run_outcomes(args.outcomes, Settings.from_env()) if args.outcomes else {}
        found = asyncio.run(read_attempts(args.runs, known, outcomes))
        data = data.merge(LearningData((), found))
        if args.outcomes:
            labelled = sum(one.outcome is not None for one in found)
            sys.stdout.write(f"{pluralize(labelled, 'proposed edit')} with an outcome.\n")
    write_data(args.data, data)
    sys.stdout.write(
        f"{args.data} holds {pluralize(len(data.issues), 'solved issue')} and "
        f"{pluralize(len(data.attempts), 'attempt')}.\n"
    )


def _check_options(args: argparse.Namespace) -> None:
    if not any((args.runs, args.pulls, args.issues, args.instances)):
        raise BadData("Name what to collect: --runs, --pulls, --issues or --instances.")
    if args.issues and not args.trees:
        raise BadData("--issues needs --trees, a folder of bare clones with the edits.")
    if args.outcomes and not args.runs:
        raise BadData("--outcomes needs --runs, the bundles of the runs to join.")
    if args.predictions and not args.instances:
        raise BadData("--predictions needs --instances, which hold the issues of the edits.")
    if args.labels and not args.predictions:
        raise BadData("--labels needs --predictions, the edits that are labelled.")


def _add(data: LearningData, found: LearningData, report: CollectReport) -> LearningData:
    sys.stdout.write(f"{pluralize(report.taken, 'issue')} taken.\n")
    for why, count in report.left_out.most_common():
        sys.stdout.write(f"{count} left out: {why}.\n")
    return data.merge(found)
