"""`capuchin learn`: from solved issues to trained models."""

import argparse
import asyncio
import functools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from bot.cli import USAGE, print_error
from bot.cli.display import print_progress
from bot.cli.lab.collect_github import check_repository, collect_repositories, open_reader
from bot.cli.lab.evaluate_grade import Workplaces, open_runner
from bot.cli.lab.evaluate_solve import (
    SolveTask,
    add_run_options,
    add_shard_option,
    solve_instances,
)
from bot.cli.lab.learn_make import make_instances
from bot.cli.local_run import add_set_option
from bot.cli.run_input import WrongUsage
from bot.comments.status import find_run
from bot.data.run import now
from bot.errors import GitHubUnavailable, RunFailed, TryLater, translate_errors
from bot.github.app import GitHubApp
from bot.outcomes import find_outcomes
from bot.safe_text import printable
from bot.settings import Settings, SettingsError
from bot.storage.history import HISTORY_DAYS
from pipeline.codebase.git import GitFailed
from pipeline.concurrency import gather_bounded
from pipeline.lab.dataset import BadData, read_lines
from pipeline.lab.learning.attempts import read_attempts
from pipeline.lab.learning.collect import (
    CollectReport,
    IssueRow,
    read_history,
    read_instance_issues,
    read_public_attempts,
    read_trajectories,
)
from pipeline.lab.learning.filtering import (
    ROW_FILES,
    CheckedIssue,
    Checker,
    FilterSettings,
    check_filtered,
    filter_data,
    read_held_out,
    read_warning,
    render_filter_report,
    to_instance,
    to_located,
)
from pipeline.lab.learning.interpreter import (
    CONFIG,
    TrainedKind,
    TrainerFailed,
    TrainingConfig,
    count_gpus,
    find_interpreter,
    read_training,
    score_rows,
    train,
    write_training_report,
)
from pipeline.lab.learning.judging import Level, judge, list_score_requests, render_gains
from pipeline.lab.learning.publishing import INSTANCES, publish
from pipeline.lab.learning.records import (
    ATTEMPTS,
    Attempt,
    DataWriter,
    LearningData,
    Outcome,
    SolvedIssue,
    digest_file,
    index_attempts,
    open_data,
    read_group,
    read_issues,
    write_rows,
)
from pipeline.lab.recall import CannotMeasure, read_code
from pipeline.lab.shards import join_results, open_results
from pipeline.models.base import ModelError
from pipeline.run_errors import OtherFormat
from pipeline.store import DirStore, ScopedStore, digest
from prompts.text import pluralize
from sandbox.errors import SandboxError
from sandbox.frozen import Frozen, replace

if TYPE_CHECKING:
    from bot.cli import Subparsers


async def load_run_outcomes(repository: str, settings: Settings) -> dict[str, Outcome]:
    """The outcomes of the last year's pull requests by run id.

    Raises:
        BadData: the App is not installed there, or GitHub does not answer.
    """
    place = re.fullmatch(r"([\w.-]+)/([\w.-]+)", repository, re.A)
    if place is None:
        raise BadData(f"--outcomes {repository}: give OWNER/NAME.")
    if not settings.github_app_id:
        raise BadData("--outcomes asks GitHub as your App: set CAPUCHIN_GITHUB_APP_ID and its key.")
    app = GitHubApp(settings)
    since = now() - timedelta(days=HISTORY_DAYS)
    try:
        with translate_errors():
            ref = await app.find_repository(place[1], place[2])
            if ref is None:
                raise BadData(f"The App is not installed on {repository}.")
            async with app.open_repository(ref) as repo:
                decided = await find_outcomes(repo, (), since, most=1000)
    except (RunFailed, TryLater) as error:
        raise BadData(f"GitHub cannot be asked about {repository}: {error}") from None
    found: dict[str, Outcome] = {}
    for one in decided:
        if run := find_run(one.facts.body or ""):
            found[run] = one.outcome.value
    return found


def run_collect(args: argparse.Namespace) -> None:
    """Add the sources in the options to DATA, and print its size.

    Raises:
        BadData: an option lacks another, or a file cannot be read.
        OtherFormat, OSError: see `read_attempts`, `open_data`.
    """
    _check_options(args)
    if args.github or args.top:
        asyncio.run(_collect_github(args))
    with open_data(args.data) as data:
        if args.issues:
            rows = read_lines(args.issues, IssueRow)
            data.add(_report(*asyncio.run(read_history(rows, args.trees))))
        if args.instances and args.predictions:
            found = read_public_attempts(args.instances, args.predictions, args.labels)
            data.add(_report(*found))
        elif args.instances:
            data.add(_report(*read_instance_issues(args.instances, args.trees)))
        if args.trajectories:
            _collect_trajectories(args.trajectories, data)
        if args.runs:
            asyncio.run(_collect_runs(args.runs, args.outcomes, data))
    _print_size(args.data)


def _collect_trajectories(path: Path, data: DataWriter) -> None:
    report = CollectReport()
    for attempt in read_trajectories(path, data.issues, report):
        data.add(LearningData((), (attempt,)))
    _report(None, report, "attempt")


async def _collect_runs(runs: Path, repository: str, data: DataWriter) -> None:
    outcomes = await load_run_outcomes(repository, Settings.from_env()) if repository else {}
    labelled = 0
    async for attempt in read_attempts(runs, data.issues, outcomes):
        data.add(LearningData((), (attempt,)))
        labelled += attempt.outcome is not None
    if repository:
        sys.stdout.write(f"{pluralize(labelled, 'proposed edit')} with an outcome.\n")


def _print_size(folder: Path) -> None:
    with (folder / ATTEMPTS).open("rb") as file:
        attempts = sum(1 for _ in file)
    issues = len(read_issues(folder))
    sys.stdout.write(
        f"{folder} holds {pluralize(issues, 'solved issue')} and {pluralize(attempts, 'attempt')}."
        "\n"
    )


def run_sample(args: argparse.Namespace) -> None:
    """Run the pipeline on the issues of DATA, and add the attempts to it.

    Raises:
        BadData: an option or a file cannot be used.
        OtherFormat, ModelError, SandboxError, OSError: call again to continue.
    """
    issues = read_issues(args.data)
    rows = [to_located(one) for one in issues.values() if one.base_commit]
    if not rows:
        raise BadData(f"{args.data} holds no issue with its commit: collect some first.")
    task = SolveTask(args.trees, args.out, args.budget, dict(args.set), shard=args.shard)
    found = asyncio.run(solve_instances(task, rows, Settings.from_env()))
    unfinished = sum(bool(one.unfinished) for one in found)
    dollars = sum(one.dollars for one in found)
    sys.stdout.write(
        f"{pluralize(len(found) - unfinished, 'issue')} done, {unfinished} not finished, "
        f"${dollars:.2f} at list prices.\n"
    )
    if args.shard.is_part:
        sys.stdout.write("When all shards are done, run it without --shard to add the attempts.\n")
        return
    if any(one.outcome for one in found):
        with open_data(args.data) as data:
            asyncio.run(_collect_runs(args.out / "runs", "", data))
    _print_size(args.data)


def run_make(args: argparse.Namespace) -> None:
    """Make instances, and say where they are. Raises as `make_instances`."""
    if args.count < 1 or not args.budget > 0:
        raise BadData("--count is at least 1, and --budget more than 0.")
    work = make_instances(
        args.repository, args.trees, args.out, args.count, args.budget, Settings.from_env()
    )
    made = asyncio.run(work)
    sys.stdout.write(f"{pluralize(made, 'instance')} in {args.out}/instances.jsonl.\n")


def run_serve(args: argparse.Namespace) -> None:
    """Serve instances as environments until a signal. Raises as `serve`."""
    from bot.cli.lab.learn_serve import serve

    asyncio.run(serve(args.instances, args.trees, args.address, Settings.from_env()))


def run_merge(args: argparse.Namespace) -> None:
    """Join the results of shards that worked in folders of their own.

    Raises as `join_results`.
    """
    joined = join_results(args.out, args.shards)
    sys.stdout.write(f"{pluralize(joined, 'result')} added to {args.out}.\n")


async def _collect_github(args: argparse.Namespace) -> None:
    """Add the repositories that are named, and the popular ones, each as soon as it is read."""
    for name in args.github:
        check_repository(name)
    store, whole = DirStore(args.data / "github"), CollectReport()
    async with open_reader(Settings.from_env(), args.trees, store) as reader:
        names = dict.fromkeys(args.github)
        if args.top:
            names |= dict.fromkeys(await reader.find_popular(args.top))
        async for data, report in collect_repositories(reader, tuple(names)):
            with open_data(args.data) as writer:
                writer.add(data)
            whole.taken += report.taken
            whole.left_out += report.left_out
    _report(None, whole)


def _check_options(args: argparse.Namespace) -> None:
    sources = ("runs", "github", "top", "issues", "instances", "trajectories")
    if not any(getattr(args, source) for source in sources):
        known = ", ".join(f"--{source}" for source in sources)
        raise BadData(f"Specify what to collect by one of {known}.")
    if args.top is not None and args.top < 1:
        raise BadData("--top is at least 1.")
    for missing, needed, asking in (
        ("--trees, a folder of bare clones", args.trees, ("github", "top", "issues")),
        ("--runs, the bundles of the runs to join", args.runs, ("outcomes",)),
        ("--instances, which hold the issues of the edits", args.instances, ("predictions",)),
        ("--predictions, the edits that are labelled", args.predictions, ("labels",)),
    ):
        if not needed and (given := next((o for o in asking if getattr(args, o)), None)):
            raise BadData(f"--{given} needs {missing}.")


T = TypeVar("T")


def _report(found: T, report: CollectReport, what: str = "issue") -> T:
    sys.stdout.write(f"{pluralize(report.taken, what)} taken.\n")
    for why, count in report.left_out.most_common():
        sys.stdout.write(f"{count} left out: {why}.\n")
    return found


M = TypeVar("M", bound=Frozen)


def _read_settings(form: type[M], given: Iterable[tuple[str, object]], /, **known: object) -> M:
    """Raises BadData: an option of `--set` is unknown, or has a wrong value."""
    try:
        return form.model_validate({**dict(given), **known})
    except ValidationError as error:
        wrong = (f"--set {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise BadData("; ".join(wrong)) from None


def run_filter(args: argparse.Namespace) -> None:
    """Filter DATA into --out, and print the report.

    Raises:
        BadData: DATA cannot be read or is empty, or training and test share something.
        SandboxError, OSError: call again to continue.
    """
    issues = read_issues(args.data)
    if not issues:
        raise BadData(f"{args.data} holds no issue: run `capuchin learn collect` first.")
    if args.shard.is_part and not args.trees:
        raise BadData("--shard needs --trees: shards share the executions.")
    settings = _read_settings(FilterSettings, args.set)
    easy = frozenset[str]()
    if args.easy:
        try:
            easy = TypeAdapter(frozenset[str]).validate_json(args.easy.read_bytes())
        except (OSError, ValueError):
            raise BadData(f"{args.easy} is not a JSON list of issues.") from None
    places = index_attempts(args.data)
    checked: dict[str, CheckedIssue] = {}
    if args.trees:
        own = [one for one in issues.values() if args.shard.holds(one.id)]
        work = _Executing(args.data, args.trees, places, args.out)
        checked = asyncio.run(work.execute_all(own, Settings.from_env()))
    if args.shard.is_part:
        sys.stdout.write(
            f"{pluralize(len(checked), 'issue')} checked. When all shards are done, run it without "
            "--shard to write the rows.\n"
        )
        return

    def read() -> Iterator[Attempt]:
        for name, place in places.items():
            known = checked.get(name, CheckedIssue())
            yield from map(known.complete_attempt, read_group(args.data, place))

    issues = {name: checked.get(name, CheckedIssue()).complete(one) for name, one in issues.items()}
    report = filter_data(issues, read, args.out, easy=easy, settings=settings)
    write_rows(args.out / INSTANCES, (to_instance(i) for i in issues.values() if i.fail_to_pass))
    text = render_filter_report(report)
    (args.out / "report.md").write_text(text, encoding="utf-8")
    sys.stdout.write(printable(text))


@dataclass(frozen=True)
class _Executing:
    """Gathers the evidence that attempts lack, several issues at a time."""

    data: Path
    trees: Path
    places: Mapping[str, int]
    out: Path

    async def execute_all(
        self, issues: Sequence[SolvedIssue], settings: Settings
    ) -> dict[str, CheckedIssue]:
        async with open_runner(settings) as runner:
            places = Workplaces(self.trees, settings, runner)
            found = await gather_bounded(
                settings.sandbox_parallel, (self._execute(one, places) for one in issues)
            )
        return {one.id: checked for one, checked in zip(issues, found, strict=True) if checked}

    async def _execute(self, issue: SolvedIssue, places: Workplaces) -> CheckedIssue | None:
        """What is saved of `issue`, or found now; None where nothing is to be executed."""
        attempts = [
            replace(one, replies=(), judged=())
            for one in self._read(issue.id)
            if one.script or one.resolved is None
        ]
        unknown = issue.base_commit and issue.tests and not issue.fail_to_pass
        if not attempts and not unknown:
            return None
        texts = [text for one in attempts for text in (one.source, one.script, one.diff)]
        key = f"checked-{digest(issue.model_dump_json(), *texts)[:24]}"
        results = open_results(self.out, issue.id)
        found = await results.load(key, CheckedIssue)
        if found is None:
            found = await self._execute_new(issue, attempts, places)
            if found:
                await results.save(key, found)
        return found

    def _read(self, name: str) -> Iterable[Attempt]:
        return read_group(self.data, self.places[name]) if name in self.places else ()

    async def _execute_new(
        self, issue: SolvedIssue, attempts: Sequence[Attempt], places: Workplaces
    ) -> CheckedIssue | None:
        """None: nothing can be executed here."""
        store = ScopedStore(DirStore(self.out / "executions"), issue.id)
        try:
            async with places.open(to_instance(issue), store) as place:
                checker = Checker(place.codebase, place.sandbox, place.store)
                checked = CheckedIssue(oracle=await checker.find_oracle(issue))
                issue = checked.complete(issue)
                for attempt in attempts:
                    checked.attempts[attempt.source] = await checker.execute(issue, attempt)
                    of = pluralize(len(attempts), "attempt")
                    print_progress(f"{issue.id}: {len(checked.attempts)} of {of} checked.")
        except CannotMeasure as error:
            print_progress(f"{issue.id}: cannot tell. {error}")
            return None
        finally:
            await places.evict_images()
        return checked


def run_publish(args: argparse.Namespace) -> None:
    """Write filtered data as a data set for Hugging Face's hub. Raises as `publish`."""
    sizes = publish(args.data, args.out)
    rows = sum(count for splits in sizes.values() for count in splits.values())
    sys.stdout.write(
        f"{pluralize(rows, 'row')} in {args.out}; read README.md, the licences in it before all.\n"
    )


def run_train(args: argparse.Namespace) -> None:
    """Train, and write the report with the curve beside the adapter.

    Raises:
        BadData: the data or the interpreter cannot be used.
        TrainerFailed, OSError: call again to continue.
    """
    if not (args.base / "config.json").is_file():
        raise BadData(f"{args.base} is not a model folder: it has no config.json.")
    check_filtered(args.data)
    kind: TrainedKind = args.kind
    rows: Path = args.data / ROW_FILES[kind]
    named = {
        "kind": kind,
        "rows": str(rows.resolve()),
        "digest": digest_file(rows),
        "base": str(args.base.resolve()),
    }
    config = _read_settings(TrainingConfig, args.set, **named)
    if config.full and (config.four_bit or kind != "policy"):
        raise BadData("`full` trains a policy, in 16 bits: reward models are adapters of a base.")
    number, machines = config.place
    if number > machines or (machines > 1 and not config.meet):
        raise BadData(
            "`node` is K/N, with K from 1 to N; of several machines, each is told where they "
            "`meet`: the first one's HOST or HOST:PORT."
        )
    python = find_interpreter(args.python, config.report_to)
    gpus = count_gpus(python)
    if config.four_bit and not gpus:
        raise BadData("`four_bit` needs a GPU.")
    found = train(python, config, args.out, config.processes or max(1, gpus))
    if number > 1:
        return  # the first machine says what was done
    warning = read_warning(args.data)
    write_training_report(args.out, found, warning)
    if warning:
        sys.stdout.write(f"{warning}.\n")
    sys.stdout.write(
        f"Trained on {pluralize(found.rows, 'row')} in {pluralize(found.steps, 'step')}; "
        f"see {args.out}/report.md.\n"
    )
    if found.validation:
        sys.stdout.write(f"Validation loss: {found.validation[-1][1]:.3f}.\n")
    whole = found.replies
    if found.too_long > 0.05 * whole:
        sys.stdout.write(
            f"Warning: {found.too_long} of {pluralize(whole, 'answer')} end beyond "
            f"{found.max_tokens:,} tokens and were left out; the report says of which stages.\n"
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
    if config.digest != digest_file(args.data / ROW_FILES[training.kind]):
        raise BadData(
            f"{args.trained} was trained on other data, which may contain these test issues."
        )
    data = read_held_out(args.data)
    levels: tuple[Level, ...] = ("edits",)
    if training.kind == "prm":  # it is asked only what it has learnt
        learnt = {stage for stage, (count, *_) in training.stages.items() if count}
        levels = tuple(level for level in get_args(Level) if level in learnt)
    requests = list_score_requests(data, training.kind, levels)
    if not requests:
        raise BadData(f"{args.data} holds no held-out candidate.")
    scores = score_rows(find_interpreter(args.python), requests, args.trained)
    edits: dict[str, list[str]] = defaultdict(list)
    for row in data.candidates:
        edits[row.issue].append(row.diff)
    located = [to_located(one) for one in data.issues if one.base_commit]
    code = asyncio.run(read_code(located, args.trees, edits)) if args.trees else {}
    gains = judge(data, scores, levels, code)
    text = json.dumps([gain.model_dump(mode="json") for gain in gains], indent=1) + "\n"
    (args.trained / "judged.json").write_text(text, encoding="utf-8")
    table = render_gains(gains, f"the {training.kind.upper()}")
    (args.trained / "judged.md").write_text(table, encoding="utf-8")
    sys.stdout.write(printable(table))


Option = tuple[str, dict[str, Any]]


def _option(name: str, metavar: str, words: str, **more: Any) -> Option:
    return name, {"metavar": metavar, "help": words, **more}


def _path(name: str, metavar: str, words: str, **more: Any) -> Option:
    return _option(name, metavar, words, type=Path, **more)


_DATA = _path("data", "DATA", "the folder of `learn collect`")
_ROWS = _path("data", "DATA", "the folder of `learn filter`")
_TREES = _path("--trees", "DIR", "a folder of bare clones", required=True)
_OUT = _path("--out", "DIR", "where to write", required=True)
_PYTHON = _path(
    "--python", "PYTHON", "an interpreter with a deploy/learn-*.lock (default: this one)"
)
_COLLECT: tuple[Option, ...] = (
    _path("data", "DATA", "a new folder, or one of an earlier call"),
    _path("--runs", "DIR", "attempts of Capuchin's runs, each named after a collected issue"),
    _option("--outcomes", "OWNER/NAME", "with --runs: read the outcomes of their pull requests in "
            "this repository", default=""),
    _option("--github", "OWNER/NAME", "closed issues of a repository on GitHub "
            "(CAPUCHIN_GITHUB_URL); repeat for others", action="append", default=[]),
    _option("--top", "N", "the same of the N Python repositories with the most stars, more than "
            "1,000, without those of SWE-bench", type=int),
    _path("--issues", "FILE", "JSON lines: closed issues; their edits are looked up in the clones "
          "of --trees"),
    _path("--trees", "DIR", "a folder of bare clones; those of --github and --top are made"),
    _path("--instances", "PATH", "solved issues in the format of SWE-bench, SWE-Gym, SWE-rebench "
          "or SWE-smith: JSON lines, or parquet as on Hugging Face"),
    _path("--trajectories", "PATH", "labelled edits of public systems' runs at collected issues: "
          "JSON lines, or parquet as on Hugging Face"),
    _path("--predictions", "DIR", "with --instances: public systems' edits"),
    _path("--labels", "FILE", "with --predictions: JSON that maps a system to what it resolves "
          "(default: no labels; `learn filter --trees` finds them by the benchmark's tests)"),
)  # fmt: skip
_MAKE: tuple[Option, ...] = (
    _option("repository", "OWNER/NAME", "its bare clone in --trees also keeps the commits with "
            "the bugs"),
    _TREES,
    _OUT,
    _option("--count", "N", "how many bugs, at most (default: 20)", type=int, default=20),
    _option("--budget", "DOLLARS", "what the issues' texts may cost (default: 5)", type=float,
            default=5.0),
)  # fmt: skip
_SERVE: tuple[Option, ...] = (
    _path("instances", "INSTANCES", "instances with tests, in the format of SWE-bench"),
    _path("trees", "TREES", "a folder of bare clones"),
    _option("address", "HOST:PORT", "where to listen (default: 127.0.0.1:8765)", nargs="?",
            default="127.0.0.1:8765"),
)  # fmt: skip
_MERGE: tuple[Option, ...] = (
    _path("out", "OUT", "the folder that receives all"),
    _path("shards", "DIR", "a shard's --out", nargs="+"),
)
_FILTER: tuple[Option, ...] = (
    _DATA,
    _OUT,
    _path("--trees", "DIR", "a folder of bare clones: run the attempts' scripts, and the "
          "benchmark's tests, in the sandbox"),
    _path("--easy", "FILE", "a JSON list of issues that a base model solves at once; the policy is "
          "not trained on them"),
)  # fmt: skip
_TRAIN: tuple[Option, ...] = (
    ("kind", {"choices": ("policy", "prm", "orm")}),
    _ROWS,
    _path("--base", "MODEL", "the base model's folder", required=True),
    _OUT,
    _PYTHON,
)
_JUDGE: tuple[Option, ...] = (
    _ROWS,
    _path("trained", "TRAINED", "the --out of `learn train`"),
    _path("--trees", "DIR", "a folder of bare clones: the confidence reads the unedited files, as "
          "in a run"),
    _PYTHON,
)  # fmt: skip


def register(subparsers: "Subparsers") -> None:
    """Add the command and its actions to the parser."""
    parser = subparsers.add_parser(
        "learn",
        help="train models on solved issues",
        description="Trains a policy, a process and an outcome reward model (SWE-Reasoner). See "
        "docs/learning.md. Exit codes: 0 done, 1 failed, 2 wrong usage.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for name, run, options, words in (
        ("collect", run_collect, _COLLECT, "add solved issues and attempts to DATA"),
        ("make", run_make, _MAKE, "inject bugs into a repository and write issues for them"),
        ("sample", run_sample, (_DATA, _TREES, _OUT), "run the pipeline on the issues of DATA"),
        ("filter", run_filter, _FILTER, "write the training rows that pass the four checks"),
        ("merge", run_merge, _MERGE, "join what shards of `sample` or `filter` have done"),
        ("publish", run_publish, (_ROWS, _OUT), "write the rows as a data set for Hugging Face"),
        ("train", run_train, _TRAIN, "train a model; run it again to continue"),
        ("serve", run_serve, _SERVE, "offer instances as environments for reinforcement learning"),
        ("judge", run_judge, _JUDGE, "compare a reward model with Capuchin's own confidence"),
    ):
        action = actions.add_parser(name, help=words)
        for option, settings in options:
            action.add_argument(option, **settings)
        if run is run_sample:
            add_run_options(action)
        if run is run_filter:
            add_shard_option(action)
            add_set_option(action, "such as until=2025-01-01; docs/learning.md lists them")
        if run is run_train:
            add_set_option(action, "such as epochs=2; docs/learning.md lists them")
        action.set_defaults(run=functools.partial(_run, run))


_FAILURES = (
    TrainerFailed, OtherFormat, ModelError, SandboxError, GitFailed, GitHubUnavailable, OSError,
)  # fmt: skip


def _run(action: Callable[[argparse.Namespace], None], args: argparse.Namespace) -> int:
    """Run an action and print its errors as sentences."""
    try:
        action(args)
    except (BadData, SettingsError, WrongUsage) as problem:
        return print_error(str(problem), USAGE)
    except _FAILURES as error:
        return print_error(f"{error}\nOnce that is mended, run it again with the same folder.")
    return 0
