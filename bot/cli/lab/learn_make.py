"""`capuchin learn make`: instances from bugs made on purpose in one repository."""

from functools import partial
from pathlib import Path

from pydantic import BaseModel

from bot.cli.display import print_event, print_progress
from bot.cli.lab.evaluate_grade import Workplaces, open_runner
from bot.data.job import Job
from bot.data.run import RunId
from bot.runner.models import check_models
from bot.settings import Settings
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.edits.patches import create_patch
from pipeline.lab.dataset import BadData
from pipeline.lab.grading import GradedInstance
from pipeline.lab.learning.making import Bug, BugMaker, keep_bug, write_issue
from pipeline.lab.learning.records import write_rows
from pipeline.lab.recall import CannotMeasure, find_clone, open_base, scope_of_clone
from pipeline.lab.shards import open_results
from pipeline.models.base import Model
from pipeline.run_errors import BudgetSpent
from pipeline.store import DirStore, Store, load_or_run
from sandbox.errors import EnvironmentFailed


class MadeInstance(GradedInstance):
    """An instance with a field more."""

    strategy: str = ""
    """How the bug was made; see `Strategy`."""


class _Made(BaseModel):
    """What is known of one bug; None: its tests do not decide, or no issue was written."""

    instance: MadeInstance | None


async def make_instances(
    repository: str, trees: Path, out: Path, count: int, budget: float, settings: Settings
) -> int:
    """Write at most `count` instances into `OUT/instances.jsonl`, and return how many there are.

    Each has the bug in a commit of its own, which the clone keeps under `refs/capuchin/made`, and
    lacks the tests that notice it. A second call continues.

    Raises:
        BadData: the clone is missing, or none of its tests passes.
        SettingsError, ModelError, SandboxError, GitFailed: call again to continue.
    """
    check_models(settings)
    clone = find_clone(trees, repository)
    if clone is None:
        raise BadData(f"{trees} holds no clone of {repository}.")
    commit = (await git(clone, "rev-parse", "HEAD")).decode().strip()
    codebase = await open_base(trees, repository, commit)
    job = Job(
        run_id=RunId("learn-make"),
        issue=Issue(repository=repository, title="", body=""),
        codebase=codebase,
        options=Options(dollars=budget),
        scope=scope_of_clone(trees, repository),
    )
    store, say = DirStore(out / "run"), partial(print_event, of=repository)
    found: list[MadeInstance] = []
    bugs = 0
    async with open_runner(settings) as runner:
        places = Workplaces(trees, settings, runner)
        try:
            async with runner.open_selection(job, store, say) as space:
                model = space.models.solver
                assert model is not None  # `check_models` has looked
                async for bug in BugMaker(space.workspace.with_model(model)).make(count):
                    bugs += 1
                    make = partial(_make, codebase, bug, repository, model, places)
                    name = f"{repository.replace('/', '__')}-{bug.name}"
                    results = open_results(out, name)
                    made = await load_or_run(results, "made", _Made, partial(make, name, results))
                    found += [made.instance] if made.instance else []
                    print_progress(f"{name}: {'made' if made.instance else 'left out'}.")
                if not bugs:
                    raise BadData(
                        f"No test of {repository} that passes here notices a fault: see that its "
                        "tests run (`capuchin doctor`), or set the command in its settings file."
                    )
        except EnvironmentFailed as error:
            raise BadData(f"No environment: {error}") from None
        except BudgetSpent as spent:
            print_progress(f"{spent} Give more by --budget to go on.")
    write_rows(out / "instances.jsonl", found)
    return len(found)


async def _make(
    codebase: Codebase,
    bug: Bug,
    repository: str,
    model: Model,
    places: Workplaces,
    name: str,
    store: Store,
) -> _Made:
    commit, tests = await keep_bug(codebase, bug)
    base = await Codebase.open(codebase.git_dir, commit)
    changed = bug.made.changes
    text = await codebase.read_all(path for path in changed if path in codebase.files)
    unwritten = MadeInstance.model_validate(
        {
            "instance_id": name,
            "repo": repository,
            "base_commit": commit,
            "patch": (await create_patch(base, {path: text.get(path) for path in changed})).diff,
            "test_patch": (await create_patch(base, dict(tests))).diff,
            "FAIL_TO_PASS": [],
            "PASS_TO_PASS": [],
            "strategy": bug.made.strategy,
        }
    )
    try:
        async with places.open(unwritten, store) as place:
            mended, kept = await place.build_grader(unwritten).find_tests()
    except CannotMeasure as error:
        print_progress(f"{name}: cannot tell. {error}")
        return _Made(instance=None)
    title, body = await write_issue(model, bug) if mended else ("", "")
    if not title:
        return _Made(instance=None)
    row = unwritten.model_dump(by_alias=True)
    told = {"problem_statement": f"{title}\n\n{body}", "FAIL_TO_PASS": mended, "PASS_TO_PASS": kept}
    return _Made(instance=MadeInstance.model_validate(row | told))
