"""`capuchin evaluate`: measures how well edits are chosen, or relevant files are found."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import get_args

from bot.cli import FIXED, USAGE, Subparsers, print_error
from bot.cli.lab.evaluate_grade import (
    GOLD,
    NONE,
    execute_edits,
    grade_predictions,
    write_executions,
    write_grades,
    write_output,
)
from bot.cli.lab.evaluate_recall import measure_recall, write_recall
from bot.cli.lab.evaluate_solve import (
    SolveTask,
    add_run_options,
    evaluate_solved,
    solve_instances,
    write_solved,
)
from bot.cli.run_input import WrongUsage
from bot.errors import BotError
from bot.safe_text import printable
from bot.settings import Settings, SettingsError
from pipeline.codebase.git import GitFailed
from pipeline.data.options import SelectionMethod
from pipeline.lab.bundles import read_runs
from pipeline.lab.dataset import (
    BadData,
    Dataset,
    Instance,
    LocatedInstance,
    read_dataset,
    read_lines,
    read_references,
    read_rows,
    read_samples,
)
from pipeline.lab.executions import evaluate_executions, render_executions
from pipeline.lab.grading import ExecutedEdit, GradedInstance
from pipeline.lab.lab_report import render_markdown, to_json, write_report
from pipeline.lab.predictions import Evaluation, evaluate
from pipeline.lab.recall import read_code, score_predictions
from pipeline.lab.runs import evaluate_runs
from pipeline.models.base import ModelError
from pipeline.run_errors import OtherFormat
from sandbox.errors import SandboxError
from sandbox.frozen import replace


def register(subparsers: Subparsers) -> None:
    """Add the command to `capuchin`."""
    parser = subparsers.add_parser(
        "evaluate",
        description="Reports random, oracle, the best member and every selection method, with "
        "intervals. Calls no model (except the scout model with --trees, and all models with "
        "--solve) and runs no tests (except with --grade and --solve). "
        "Exit codes: 0 done, 1 failed, 2 wrong usage.",
    )
    parser.add_argument(
        "instances", type=Path, metavar="INSTANCES",
        help="instances in the format of SWE-bench: .jsonl, .jsonl.gz or .parquet",
    )  # fmt: skip
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--predictions", type=Path, metavar="DIR", help="a folder of MEMBER.jsonl[.gz], or one file"
    )
    source.add_argument(
        "--runs", type=Path, metavar="DIR",
        help="a folder of run folders or bundles, each named after its instance",
    )  # fmt: skip
    source.add_argument(
        "--grade", metavar="PREDICTIONS",
        help="with --trees: run the benchmark's tests on the edits of a file of predictions, in "
        "environments that Capuchin builds, and report which edits resolve their instances. To "
        "check the environments, `gold` grades the reference edits and `none` no edits. A folder "
        "with --labels records test results of right and of wrong edits. Calls no model",
    )  # fmt: skip
    source.add_argument(
        "--solve", type=Path, metavar="OUT",
        help="with --trees: run the whole pipeline on every instance, then the benchmark's tests "
        "on all its edits. OUT receives the runs, tables and figures; run the same command again "
        "to continue. Calls the configured models",
    )  # fmt: skip
    parser.add_argument(
        "--trees", type=Path, metavar="DIR",
        help="a folder of bare clones (owner+name/repo, owner__name.git, ...): measures how often "
        "the context contains every file that the instance's own edit changes; calls the "
        "configured scout model. With --predictions: only shows where functions begin and end, "
        "for the scores of localisation",
    )  # fmt: skip
    add_run_options(parser, "with --solve: ")
    parser.add_argument(
        "--selection", action="append", default=[], choices=get_args(SelectionMethod),
        help="with --solve: choose by this method; repeat to compare several on the same edits",
    )  # fmt: skip
    parser.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="JSON: maps a member to its resolved instances; with --runs, maps an instance to the "
        "numbers (from 0) of the samples that resolve it, or to the resolving revisions of each "
        "sample (default: labels.json in the folder of runs)",
    )  # fmt: skip
    parser.add_argument(
        "--executions", type=Path, metavar="FILE",
        help="with --predictions: compare the ways of choosing on random ensembles of edits that "
        "ran, and with what ran (executions.jsonl[.gz] of --grade DIR)",
    )  # fmt: skip
    parser.add_argument(
        "--ensemble", metavar="FILE:NAME", help="only the members in list NAME of FILE"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to write the report, figures and edits"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=run_command)


def run_command(args: argparse.Namespace) -> int:
    """Run the command and return its exit code; print an error as a sentence on standard error."""
    try:
        action = _choose_action(args)
        if args.out or args.solve:
            import_module("matplotlib")  # its absence is noticed before hours of work
        action(args)
    except (BadData, SettingsError, WrongUsage) as problem:
        return print_error(str(problem), USAGE)
    except (OtherFormat, ModelError, SandboxError, GitFailed, BotError, OSError) as error:
        kind = "" if isinstance(error, OtherFormat) else f"{type(error).__name__}: "
        goes_on = args.solve or (args.grade and args.out)
        again = "\nOnce that is mended, run it again with the same folder." if goes_on else ""
        return print_error(f"{kind}{error}{again}")
    return FIXED


def _choose_action(args: argparse.Namespace) -> Callable[[argparse.Namespace], None]:
    """What the options ask for. Raises BadData: they cannot be combined."""
    if args.runs and args.trees:
        raise BadData("--runs and --trees cannot be combined.")
    if (args.set or args.selection or args.shard.is_part) and not args.solve:
        raise BadData("--set, --selection and --shard need --solve.")
    if args.solve and args.out:
        raise BadData("--solve OUT replaces --out.")
    if args.executions and not args.predictions:
        raise BadData("--executions needs --predictions.")
    if args.executions:
        return _evaluate_executions
    if args.predictions or args.runs:
        return _evaluate
    if not args.trees:
        raise BadData("Give --predictions, --runs, or --trees, a folder of bare clones.")
    if args.solve:
        return _solve
    if not args.grade:
        return _measure_recall
    return _execute if args.grade not in (GOLD, NONE) and Path(args.grade).is_dir() else _grade


def _evaluate(args: argparse.Namespace) -> None:
    found = _evaluate_runs(args) if args.runs else _evaluate_predictions(args)
    if args.out:
        write_report(args.out, found.report, found.chosen)
        sys.stderr.write(f"See {args.out}/report.md.\n")
    if args.json:
        sys.stdout.write(json.dumps(to_json(found.report), indent=1) + "\n")
    elif not args.out:
        sys.stdout.write(printable(render_markdown(found.report)))


def _measure_recall(args: argparse.Namespace) -> None:
    settings = Settings.from_env()
    found = asyncio.run(measure_recall(args.instances, args.trees, args.out, settings))
    write_recall(found, args.out, as_json=args.json)


def _grade(args: argparse.Namespace) -> None:
    settings = Settings.from_env()
    work = grade_predictions(args.instances, args.trees, args.grade, args.out, settings)
    write_grades(asyncio.run(work), args.out, as_json=args.json)


def _execute(args: argparse.Namespace) -> None:
    if args.labels is None:
        raise BadData(
            "--grade of a folder needs --labels, which lists the edits that resolve their "
            "instances."
        )
    data = read_dataset(args.instances, Path(args.grade), args.labels, args.ensemble)
    work = execute_edits(args.instances, args.trees, data, args.out, Settings.from_env())
    write_executions(asyncio.run(work), args.out, as_json=args.json)


def _solve(args: argparse.Namespace) -> None:
    task = SolveTask(
        args.trees, args.solve, args.budget, dict(args.set), tuple(dict.fromkeys(args.selection)),
        args.shard,
    )  # fmt: skip
    rows = read_rows(args.instances, GradedInstance)
    settings = Settings.from_env()
    found = asyncio.run(solve_instances(task, rows, settings))
    solved = asyncio.run(evaluate_solved(found, rows, task, settings))
    write_solved(solved, task.shard.place(args.solve), as_json=args.json)


def _evaluate_executions(args: argparse.Namespace) -> None:
    data, code = _read_predictions(args)
    report = evaluate_executions(data, list(read_lines(args.executions, ExecutedEdit)), code)
    write_output(
        args.out,
        {"executions.md": render_executions(report)},
        see="executions.md",
        document=report.model_dump_json(indent=1) + "\n",
        text=render_executions(report),
        as_json=args.json,
    )


def _read_predictions(args: argparse.Namespace) -> tuple[Dataset, dict[str, dict[str, str]]]:
    """The edits and, with `--trees`, the files that they change, by instance."""
    if args.labels is None:
        raise BadData(
            "--predictions needs --labels, which lists the edits that resolve their instances."
        )
    data = read_dataset(args.instances, args.predictions, args.labels, args.ensemble)
    sys.stderr.write("Normalising and comparing the edits …\n")
    if not args.trees:
        return data, {}
    rows = read_rows(args.instances, LocatedInstance)
    return data, asyncio.run(read_code(rows, args.trees, data.list_edits()))


def _evaluate_predictions(args: argparse.Namespace) -> Evaluation:
    data, code = _read_predictions(args)
    found = evaluate(data, code=code)
    where = score_predictions(data, read_references(args.instances), code)
    return Evaluation(replace(found.report, localisation=where), found.chosen)


def _evaluate_runs(args: argparse.Namespace) -> Evaluation:
    if args.ensemble:
        raise BadData("--ensemble selects members of --predictions and cannot be used with --runs.")
    known = {
        instance.instance_id: instance.repo for instance in read_rows(args.instances, Instance)
    }
    labels = read_samples(args.labels or args.runs / "labels.json")
    runs = asyncio.run(read_runs(args.runs))
    for run in runs:
        if run.instance not in known:
            raise BadData(
                f"{args.instances} has no instance {run.instance}, but a run has this name."
            )
    references = read_references(args.instances)
    return evaluate_runs(runs, labels, repositories=known, references=references)
