"""Is the commit found that fixed an issue? Reference edits are applied before anybody asks.

Each instance's reference edit is committed on its base commit, and a few commits that change
nothing follow. Halves of the tests that the edit turns from red to green stand in for scripts; no
model is asked. Not one of these issues is fixed without the edit: there, and with tests that pass
anyway as scripts, nothing may be claimed. The latter takes longest, and is tried with `MOST_WEAK`
instances. Needs TREES (bare clones) and DATA (`ensemble` with the instances, `execution` with those
that can run). Results are kept in build/already_fixed: a second call continues, and `REDO=instance`
measures that one again.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from bot.data.job import Job
from bot.data.run import RunId
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import GRADE_OWNER, build_engine
from bot.settings import Settings
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.data.options import Options
from pipeline.data.progress import Event
from pipeline.data.types import Issue, NoFix, Usage
from pipeline.edits.external import diff_commits
from pipeline.generation.scripts import TestingState
from pipeline.lab.dataset import read_rows
from pipeline.lab.grading import GradedInstance
from pipeline.lab.recall import find_clone
from pipeline.models.base import ModelProfile, ModelRequest, Price, Reply
from pipeline.resources import Workspace
from pipeline.store import DirStore
from pipeline.workflows.abstain import find_nothing_to_fix
from pipeline.workflows.sampling import Sampler
from sandbox.base import Sandbox
from sandbox.errors import SandboxError
from sandbox.program import CommandRun, Execution, Program
from tests.benchmarks.table import Row

FOLDER: Final = Path("build/already_fixed")
SEED: Final = 14
MOST_WEAK: Final = 36
"""In the shuffled order of all."""
MOST_AFTER: Final = 12
MOST_TESTS: Final = 20
_PERSON: Final = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "1700000000 +0000"))
}
_SCRIPT: Final = """\
import os, subprocess, sys
FILES = {files!r}
for path, text in FILES.items():
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        os.makedirs(folder)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
ended = subprocess.run({command!r}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
output = ended.stdout.decode("utf-8", "replace")
print(output[-3000:])
if {broken!r} and {broken!r} in output:
    sys.exit(1)
sys.exit({codes!r}.get(ended.returncode, 1))
"""
_CALL: Final = """\
import importlib, sys
modules, names = (text.split(",") for text in sys.argv[1:])
sys.path.insert(0, ".")
try:
    modules = [importlib.import_module(module) for module in modules]
except Exception as error:
    print(repr(error))
    sys.exit(3)
called = 0
for module in modules:
    for name in names:
        if hasattr(module, name):
            getattr(module, name)()
            called += 1
sys.exit(0 if called else 3)
"""


class Outcome(BaseModel):
    """What became of one instance."""

    found: bool | None
    """Whether the right commit is named, with the edit applied; None: the scripts cannot tell."""
    wrong: bool
    """Whether something is claimed without the edit."""
    weak: bool | None
    """Whether something is claimed without the edit for tests that pass anyway."""


async def measure() -> list[Row]:
    trees, data = (os.environ.get(name, "") for name in ("TREES", "DATA"))  # noqa: TID251 - how make passes them on
    most = int(os.environ.get("MOST", "") or 10)  # noqa: TID251 - how make passes it on
    if not trees or not data:
        sys.stderr.write("  already_fixed needs TREES and DATA.\n")
        return []
    runnable = json.loads((Path(data) / "execution/runnable.json").read_text())
    can_run = {row["instance_id"] for row in runnable}
    rows = [r for r in read_rows(Path(data) / "ensemble/instances.jsonl.gz", GradedInstance)
            if r.instance_id in can_run]  # fmt: skip
    random.Random(SEED).shuffle(rows)
    redo = os.environ.get("REDO", "").split(",")  # noqa: TID251
    settings = Settings.from_env()
    engine = build_engine(settings, owner=GRADE_OWNER)
    outcomes: list[Outcome] = []
    FOLDER.mkdir(parents=True, exist_ok=True)
    slots = asyncio.Semaphore(os.cpu_count() or 1)
    runner = PipelineRunner(settings, engine)

    async def measure_one(row: GradedInstance, *, weak: bool) -> None:
        kept = FOLDER / f"{row.instance_id}.json"
        if kept.is_file() and row.instance_id not in redo:
            outcomes.append(Outcome.model_validate_json(kept.read_text("utf-8")))
            return
        async with slots:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    outcome = await _measure_instance(
                        row, Path(trees), Path(folder), runner, weak=weak
                    )
                except SandboxError as error:
                    sys.stderr.write(f"  {row.instance_id}: {error}\n")
                    return
            told = str(outcome) if outcome else "no test can be run by name"
            sys.stderr.write(f"  {row.instance_id}: {told}\n")
            if outcome:
                kept.write_text(outcome.model_dump_json(), "utf-8")
                outcomes.append(outcome)

    try:
        async with asyncio.TaskGroup() as group:
            for number, row in enumerate(rows[:most]):
                group.create_task(measure_one(row, weak=number < MOST_WEAK))
    finally:
        await engine.close()
    told = [one.found for one in outcomes if one.found is not None]
    weak = [one.weak for one in outcomes if one.weak is not None]
    wrong = [one.wrong for one in outcomes]
    return [
        Row(
            f"{name}, of {len(values)} instances",
            100 * sum(values) / len(values),
            "%",
            "goal",
            goal,
        )
        for name, values, goal in (
            ("right commit found", told, 95),
            ("claimed fixed, and is not", wrong, 2),
            ("the same with tests that pass anyway", weak, 2),
        )
        if values
    ]


async def _measure_instance(
    row: GradedInstance, trees: Path, folder: Path, runner: PipelineRunner, *, weak: bool
) -> Outcome | None:
    """None if no test that the edit turns green can be run by name."""
    clone = find_clone(trees, row.repo)
    assert clone is not None
    git_dir = folder / "repo.git"
    await git(None, "init", "-q", "--bare", str(git_dir))
    (git_dir / "objects/info").mkdir(exist_ok=True)
    (git_dir / "objects/info/alternates").write_text(f"{clone / 'objects'}\n")
    fix = await _commit(git_dir, row.base_commit, "Mend it", row.patch)
    tested = await _commit(git_dir, row.base_commit, "Test it", row.test_patch)
    top = fix
    for number in range(random.Random(row.instance_id).randint(0, MOST_AFTER)):
        top = await _commit(git_dir, top, f"Change nothing {number}")
    base = await Codebase.open(git_dir, row.base_commit)
    fixed = await Codebase.open(git_dir, top)
    texts = await _test_files(await Codebase.open(git_dir, tested), row)
    failing = _name_tests(row, texts, row.fail_to_pass)
    if not failing:
        return None
    scripts = [_script(row, texts, half, strict=False) for half in _halves(failing)]
    passing = _name_tests(row, texts, row.pass_to_pass if weak else ())[: 2 * MOST_TESTS]
    anyway = [_script(row, texts, half, strict=True) for half in _halves(passing)]
    job = Job(
        run_id=RunId(f"bench-{row.instance_id}"),
        issue=Issue(repository=row.repo, title="", body=row.problem_statement),
        codebase=base,
        options=Options(),
        scope=str(git_dir),
    )
    since = (await diff_commits(git_dir, row.base_commit, top, "")).diff.decode()
    store = DirStore(folder / "store")
    async with runner.open_environment(job, store, _quiet, look=False) as environment:
        sandbox = environment.sandbox
        claim = await _ask(scripts, base, sandbox, folder / "wrong")
        loose = await _ask(anyway, base, sandbox, folder / "weak") if passing else None
        found = await _ask(scripts, fixed, _Edited(sandbox, since), folder / "right")
    named = found.fixed_since if found else None
    tells = await _ends(folder / "wrong", 2) and await _ends(folder / "right", 0)
    return Outcome(
        found=named is not None and named.commit == fix if tells else None,
        wrong=claim is not None,
        weak=None if not passing else loose is not None,
    )


class _Edited:
    """A sandbox of a later commit, in the environment of an earlier one."""

    def __init__(self, sandbox: Sandbox, diff: str) -> None:
        self._sandbox = sandbox
        self._diff = diff

    async def run(self, program: Program) -> Execution:
        return await self._sandbox.run(replace(program, diffs=(self._diff, *program.diffs)))

    async def run_command(self, program: Program) -> CommandRun:
        return await self._sandbox.run_command(replace(program, diffs=(self._diff, *program.diffs)))


class _ReferenceModel:
    """Sends prepared scripts, and claims that the issue is fixed where they pass."""

    profile = ModelProfile(
        provider="openai", name="reference-tests", window=1_000_000, max_output=100_000,
        sampling=True, price=Price(),
    )  # fmt: skip

    def __init__(self, scripts: Sequence[str]) -> None:
        self._scripts = scripts

    async def complete(self, request: ModelRequest) -> Reply:
        sample = int(request.call.partition("/")[2])
        if request.is_opening:
            text = f"<script>\n{self._scripts[sample % len(self._scripts)]}</script>"
        else:
            passes = "says that the issue is fixed already" in request.messages[-1].text
            text = "<fixed/>" if passes else "<approve/>"
        return Reply(text=text, usage=Usage(), model=self.profile.name)


async def _ask(
    scripts: Sequence[str], codebase: Codebase, sandbox: Sandbox, folder: Path
) -> NoFix | None:
    options = Options(samples=2, attempts=2, execution_seconds=300)
    model, store = _ReferenceModel(scripts), DirStore(folder)
    issue = Issue(repository="a/b", title="", body="")
    resources = Workspace(sandbox, codebase, store, options).with_model(model)
    return await find_nothing_to_fix(resources, partial(Sampler(resources).write_test, issue))


async def _ends(folder: Path, code: int) -> bool:
    """Whether every script ended so on the code as it was, and so can tell."""
    store = DirStore(folder)
    states = [await store.load(f"testing/{sample}", TestingState) for sample in range(2)]
    return all(state and state.runs and state.runs[-1].exit_code == code for state in states)


async def _commit(git_dir: Path, parent: str, subject: str, diff: str = "") -> str:
    env = {"GIT_INDEX_FILE": str(git_dir / "scratch-index")}
    await git(git_dir, "read-tree", f"{parent}^{{tree}}", env=env)
    if diff:
        await git(git_dir, "apply", "--cached", "-", input=diff.encode(), env=env)
    else:
        blob = await git(git_dir, "hash-object", "-w", "--stdin", input=subject.encode())
        entry = f"100644 {blob.decode().strip()}\tNOTES-of-the-benchmark\0"
        await git(git_dir, "update-index", "-z", "--index-info", input=entry.encode(), env=env)
    tree = (await git(git_dir, "write-tree", env=env)).decode().strip()
    made = await git(git_dir, "commit-tree", "-p", parent, "-m", subject, tree, env=_PERSON)
    return made.decode().strip()


async def _test_files(codebase: Codebase, row: GradedInstance) -> dict[str, str]:
    paths = [line[6:] for line in row.test_patch.splitlines() if line.startswith("+++ b/")]
    return {path: await codebase.read_text(path) or "" for path in paths if path in codebase.files}


def _name_tests(row: GradedInstance, files: dict[str, str], tests: Sequence[str]) -> Sequence[str]:
    """The names by which a command runs `tests`; Django's are labels, without what has none."""
    if row.repo != "django/django":
        return tests
    described = dict(_list_described(files))
    labels = (_django_label(name) or described.get(name, "") for name in tests)
    return list(filter(None, dict.fromkeys(labels)))


def _list_described(files: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The first line of each test's docstring, by which Django's results call it, and its label."""
    for path, text in files.items():
        module = path.removeprefix("tests/").removesuffix(".py").replace("/", ".")
        classes = ast.parse(text).body if path.endswith(".py") else []
        for group in classes:
            if not isinstance(group, ast.ClassDef):
                continue
            for test in group.body:
                if isinstance(test, ast.FunctionDef) and (words := ast.get_docstring(test)):
                    yield words.partition("\n")[0], f"{module}.{group.name}.{test.name}"


def _halves(tests: Sequence[str]) -> list[Sequence[str]]:
    return [half for half in (tests[::2], tests[1::2]) if half]


def _script(
    row: GradedInstance, files: dict[str, str], tests: Sequence[str], *, strict: bool
) -> str:
    """`strict`: a test file that cannot be loaded is a broken script, as in the protocol.

    Else it shows the issue: the edit brings the name that it imports.
    """
    if row.repo == "django/django":
        command = ["python", "tests/runtests.py", "--parallel", "1", *sorted(tests)]
        codes = {0: 0, 1: 2}
    elif row.repo == "sympy/sympy":
        # They are named by function alone, whichever file they stand in.
        modules = ",".join(path.removesuffix(".py").replace("/", ".") for path in sorted(files))
        command = ["python", "-c", _CALL, modules, ",".join(tests)]
        codes = {0: 0, 1: 2} if strict else {0: 0, 1: 2, 3: 2}
    else:
        command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        codes = {0: 0, 1: 2} if strict else {0: 0, 1: 2, 2: 2, 4: 2}
    # Django's runner ends with 1 then, too.
    broken = "Failed to import test module" if strict else ""
    return _SCRIPT.format(files=files, command=command, codes=codes, broken=broken)


def _django_label(name: str) -> str:
    test, _, place = name.partition(" (")
    place = place.rstrip(")").removesuffix(f".{test}")  # Python 3.11 repeats the name
    return f"{place}.{test}" if place and test.isidentifier() else ""


def _quiet(_: Event) -> None:
    """Progress is not shown."""
