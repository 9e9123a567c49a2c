"""`capuchin learn`: collect, filter, train, judge."""

from __future__ import annotations

import argparse
import asyncio
import functools
import hashlib
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from bot.cli import FAILED, USAGE
from bot.cli.display import print_progress
from bot.cli.lab.collect_github import list_closed_issues
from bot.cli.lab.evaluate_grade import Workplaces, open_runner
from bot.comments.status import find_run
from bot.data.run import now
from bot.errors import RunFailed, TryLater, translate_errors
from bot.github.app import GitHubApp
from bot.outcomes import find_outcomes
from bot.safe_text import printable
from bot.settings import Settings
from bot.storage.history import HISTORY_DAYS
from pipeline.codebase.text import pluralize
from pipeline.concurrency import gather_bounded
from pipeline.lab.dataset import BadData, read_lines
from pipeline.lab.learning.attempts import read_attempts
from pipeline.lab.learning.collect import (
    CollectReport,
    IssueRow,
    read_history,
    read_instance_issues,
    read_public_attempts,
    read_pulls,
)
from pipeline.lab.learning.filtering import (
    OUTCOME,
    POLICY,
    PROCESS,
    Checker,
    filter_data,
    read_filtered,
    render_filter_report,
    to_instance,
    write_filtered,
    write_instances,
)
from pipeline.lab.learning.interpreter import (
    CONFIG,
    TrainedKind,
    TrainerFailed,
    TrainingConfig,
    find_interpreter,
    read_training,
    score_rows,
    train,
    write_training_report,
)
from pipeline.lab.learning.judging import Level, judge, list_score_requests, render_gains
from pipeline.lab.learning.records import (
    Attempt,
    LearningData,
    Outcome,
    SolvedIssue,
    read_data,
    write_data,
)
from pipeline.lab.recall import CannotMeasure
from pipeline.run_errors import OtherFormat
from pipeline.store import DirStore, ScopedStore, Store
from sandbox.errors import SandboxError

if TYPE_CHECKING:
    from bot.cli import Subparsers


def load_run_outcomes(repository: str, settings: Settings) -> dict[str, Outcome]:
    """The outcomes of the last year's pull requests by run id.

    Raises:
        BadData: the App is not installed there, or GitHub does not answer.
    """
    place = re.fullmatch(r"([\w.-]+)/([\w.-]+)", repository, re.A)
    if place is None:
        raise BadData(f"--outcomes {repository}: give OWNER/NAME.")
    if not settings.github_app_id:
        raise BadData("--outcomes asks GitHub as your App: set CAPUCHIN_GITHUB_APP_ID and its key.")
    try:
        return asyncio.run(_load(place[1], place[2], settings))
    except (RunFailed, TryLater) as error:
        raise BadData(f"GitHub cannot be asked about {repository}: {error}") from None


async def _load(owner: str, name: str, settings: Settings) -> dict[str, Outcome]:
    app = GitHubApp(settings)
    since = now() - timedelta(days=HISTORY_DAYS)
    with translate_errors():
        ref = await app.find_repository(owner, name)
        if ref is None:
            raise BadData(f"The App is not installed on {owner}/{name}.")
        async with app.open_repository(ref) as repo:
            decided = await find_outcomes(repo, (), since, most=1000)
    found: dict[str, Outcome] = {}
    for one in decided:
        if run := find_run(one.facts.body or ""):
            found[run] = one.outcome.value
    return found


def run_collect(args: argparse.Namespace) -> None:
    """Add the sources in the options to DATA, and print its size.

    Raises:
        BadData: an option lacks another, or a file cannot be read.
        OtherFormat, OSError: see `read_attempts`, `write_data`.
    """
    _check_options(args)
    data = read_data(args.data)
    if args.pulls:
        data = _add(data, *read_pulls(args.pulls))
    for rows in _list_closed(args):
        data = _add(data, *asyncio.run(read_history(rows, args.trees)))
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


def _list_closed(args: argparse.Namespace) -> Iterator[Iterable[IssueRow]]:
    """By source: closed issues whose edits are in the history of clones."""
    if args.issues:
        yield read_lines(args.issues, IssueRow)
    for name in args.github:
        settings = Settings.from_env()
        yield asyncio.run(list_closed_issues(name, settings, benchmarks=args.benchmarks))


def _check_options(args: argparse.Namespace) -> None:
    if not any((args.runs, args.pulls, args.github, args.issues, args.instances)):
        raise BadData(
            "Specify what to collect: --runs, --pulls, --github, --issues or --instances."
        )
    if (args.issues or args.github) and not args.trees:
        raise BadData("--github and --issues need --trees, a folder of bare clones with the edits.")
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


def run_filter(args: argparse.Namespace) -> None:
    """Filter DATA into --out, and print the report.

    Raises:
        BadData: DATA cannot be read or is empty, or training and test share something.
        SandboxError, OSError: call again to continue.
    """
    data = read_data(args.data)
    if not data.issues:
        raise BadData(f"{args.data} holds no issue: run `capuchin learn collect` first.")
    easy = frozenset[str]()
    if args.easy:
        try:
            easy = TypeAdapter(frozenset[str]).validate_json(args.easy.read_bytes())
        except (OSError, ValueError):
            raise BadData(f"{args.easy} is not a JSON list of issues.") from None
    if args.trees:
        data = asyncio.run(_execute_all(data, args.trees, args.out, Settings.from_env()))
    found, report = filter_data(data, easy=easy, until=args.until)
    if report.leaks:
        raise BadData(
            f"Nothing was written: training and test share {pluralize(report.leaks, 'thing')}."
        )
    write_filtered(args.out, found, report)
    write_instances(args.out / "instances.jsonl", data.issues)
    text = render_filter_report(report)
    (args.out / "report.md").write_text(text, encoding="utf-8")
    sys.stdout.write(printable(text))


async def _execute_all(
    data: LearningData, trees: Path, out: Path, settings: Settings
) -> LearningData:
    """`data` with the results of executions, several issues at a time; they are saved in `out`."""
    known = {one.id: one for one in data.issues}
    by_issue: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in data.attempts:
        if attempt.issue in known and (attempt.script or attempt.resolved is None):
            by_issue[attempt.issue].append(attempt)
    for one in data.issues:
        if one.base_commit and one.tests and not one.fail_to_pass:
            by_issue.setdefault(one.id, [])
    store = DirStore(out / "executions")
    async with open_runner(settings) as runner:
        places = Workplaces(trees, settings, runner)
        found = await gather_bounded(
            settings.sandbox_parallel,
            (
                _execute_issue(known[name], attempts, ScopedStore(store, name), places)
                for name, attempts in by_issue.items()
            ),
        )
    return functools.reduce(LearningData.merge, found, data)


async def _execute_issue(
    issue: SolvedIssue, attempts: list[Attempt], store: Store, places: Workplaces
) -> LearningData:
    try:
        async with places.open(to_instance(issue), store) as place:
            checker = Checker(place.codebase, place.sandbox, place.store)
            issue = await checker.find_oracle(issue)
            checked: list[Attempt] = []
            for attempt in attempts:
                checked.append(await checker.execute(issue, attempt))
                of = pluralize(len(attempts), "attempt")
                print_progress(f"{issue.id}: {len(checked)} of {of} checked.")
    except CannotMeasure as error:
        print_progress(f"{issue.id}: cannot tell. {error}")
        return LearningData((), tuple(attempts))
    finally:
        await places.evict_images()
    return LearningData((issue,), tuple(checked))


_FILES: Final[dict[TrainedKind, str]] = {"policy": POLICY, "prm": PROCESS, "orm": OUTCOME}


def run_train(args: argparse.Namespace) -> None:
    """Train, and write the report with the curve beside the adapter.

    Raises:
        BadData: the data or the interpreter cannot be used.
        TrainerFailed, OSError: call again to continue.
    """
    if args.epochs < 1 or args.max_tokens < 1 or not 0 <= args.learning_rate < 1:
        raise BadData("--epochs and --max-tokens are at least 1, --learning-rate is below 1.")
    if not (args.base / "config.json").is_file():
        raise BadData(f"{args.base} is not a model folder: it has no config.json.")
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
    """Score the held-out candidates, and print the model's gains.

    Raises:
        BadData: the data or the training cannot be used, or do not belong together.
        TrainerFailed, OSError: call again to continue.
    """
    training = read_training(args.trained)
    if training.kind == "policy":
        raise BadData("A policy is judged by `capuchin evaluate --solve`, not by its scores.")
    config = TrainingConfig.model_validate_json((args.trained / CONFIG).read_bytes())
    if config.digest != _digest(args.data / _FILES[training.kind]):
        raise BadData(
            f"{args.trained} was trained on other data, which may contain these test issues."
        )
    data = read_filtered(args.data)
    requests = list_score_requests(data, training.kind)
    if not requests:
        raise BadData(f"{args.data} holds no held-out candidate.")
    scores = score_rows(find_interpreter(args.python), requests, args.trained)
    levels: tuple[Level, ...] = ("files", "places") if training.kind == "prm" else ("edits",)
    gains = judge(data, scores, levels)
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


def register(subparsers: Subparsers) -> None:
    """Add the command and its actions to the parser."""
    parser = subparsers.add_parser(
        "learn",
        help="train models on solved issues",
        description="Trains a policy, a process and an outcome reward model (SWE-Reasoner). See "
        "docs/learning.md. Exit codes: 0 done, 1 failed, 2 wrong usage.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    parser = actions.add_parser("collect", help="add solved issues and attempts to DATA")
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="a new folder, or one of an earlier call"
    )
    parser.add_argument(
        "--runs", type=Path, metavar="DIR",
        help="attempts of Capuchin's runs, each named after a collected issue",
    )  # fmt: skip
    parser.add_argument(
        "--outcomes", metavar="OWNER/NAME", default="",
        help="with --runs: read the outcomes of their pull requests in this repository",
    )  # fmt: skip
    parser.add_argument(
        "--pulls", type=Path, metavar="FILE", help="JSON lines: merged pull requests with issues"
    )
    parser.add_argument(
        "--github", action="append", default=[], metavar="OWNER/NAME",
        help="closed issues of a repository on GitHub (CAPUCHIN_GITHUB_URL), with the clone of "
        "--trees; may be given again",
    )  # fmt: skip
    parser.add_argument(
        "--benchmarks", action="store_true",
        help="with --github: take repositories of SWE-bench, which then measures nothing",
    )  # fmt: skip
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
        help="with --predictions: JSON that maps a system to what it resolves (default: no labels; "
        "`learn filter --trees` finds them by the benchmark's tests)",
    )  # fmt: skip
    parser.set_defaults(run=functools.partial(_run, run_collect))

    parser = actions.add_parser(
        "filter", help="keep what passes the four checks, split it, and write training rows"
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="the folder of `learn collect`")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", required=True, help="where to write the rows"
    )
    parser.add_argument(
        "--trees", type=Path, metavar="DIR",
        help="a folder of bare clones: run the attempts' scripts, and the benchmark's tests, "
        "in the sandbox",
    )  # fmt: skip
    parser.add_argument(
        "--easy", type=Path, metavar="FILE",
        help="a JSON list of issues that a base model solves at once; the policy is not trained "
        "on them",
    )  # fmt: skip
    parser.add_argument(
        "--until", metavar="DATE", default="",
        help="training data ends before this date (ISO 8601; default: the median date of the test "
        "issues)",
    )  # fmt: skip
    parser.set_defaults(run=functools.partial(_run, run_filter))

    parser = actions.add_parser("train", help="train a LoRA adapter; run it again to continue")
    parser.add_argument("kind", choices=("policy", "prm", "orm"))
    parser.add_argument("data", type=Path, metavar="DATA", help="the folder of `learn filter`")
    parser.add_argument(
        "--base", type=Path, metavar="MODEL", required=True, help="the base model's folder"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", required=True, help="where to write the adapter"
    )
    _add_python(parser)
    parser.add_argument("--epochs", type=int, metavar="N", default=2)
    parser.add_argument("--learning-rate", type=float, metavar="RATE", default=0.0)
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", default=16_384, help="longer rows are left out"
    )
    parser.set_defaults(run=functools.partial(_run, run_train))

    parser = actions.add_parser(
        "judge", help="compare a reward model with Capuchin's confidence on held-out issues"
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="the folder of `learn filter`")
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
        sys.stderr.write("Run it again with the same folder to continue.\n")
        return FAILED
    return 0
