"""The tests near an edit against all tests, on real repositories with seeded mutations.

`make bench ONLY=regression TREES=FOLDER` takes flask, sphinx, django and sympy from bare clones, as
`capuchin evaluate --trees` does (`BASE` names an image with more Pythons); without it, the source
release of marshmallow. Each mutation turns one comparison around in a function that some test runs.
All tests that run the function are run with it: no other can feel it. A mutation that breaks none
of them is left out. Of a suite longer than `BASE_SECONDS`, the tests that fit decide what is a
breakage, and the time of all is estimated by the length of their files, from the near ones that
ran.
"""

from __future__ import annotations

import ast
import difflib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bot.settings import Settings
from capuchin_demo.package import fetch_release, unpack
from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.environment.check import find_test_files
from pipeline.lab.recall import find_clone
from pipeline.languages.conventions import is_test
from pipeline.languages.python.import_graph import scan_code
from pipeline.regression.affected_tests import find_touched, tests_that_ran
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.near_tests import NearbyTests
from pipeline.regression.runner import TestRun, TestRunner
from pipeline.resources import Workspace
from pipeline.store import DirStore
from sandbox.base import Sandbox
from sandbox.engine import EnvironmentRequest
from sandbox.errors import EnvironmentFailed
from sandbox.program import Execution
from tests.benchmarks.sandbox.warm_engine import engine
from tests.benchmarks.table import Row
from tests.support.data.repositories import make_codebase
from tests.support.docker import build_environment

REPOSITORIES = {
    "pallets/flask": "HEAD",
    "sphinx-doc/sphinx": "v7.2.6",
    "django/django": "HEAD",
    "sympy/sympy": "sympy-1.12",
}
"""A commit of each; it must run with a Python of the base image."""
MUTATIONS = 6
BASE_SECONDS = 90.0
"""Processor seconds of all tests with functions recorded: of a longer suite, as many as fit."""
SAMPLED = 10
"""Of a suite that takes so long to collect that no test begins, one file in so many decides."""
REPOSITORY_SECONDS = 420.0
"""After so much wall time no further mutation of a repository begins."""
SEED = 5


@dataclass(frozen=True)
class Mutated:
    """One mutation that all tests find."""

    found: bool
    near: float
    """Processor seconds of the near tests with it."""
    whole: float
    """Those of all tests, estimated."""


async def measure() -> list[Row]:
    held = engine("warm")
    rows: list[Row] = []
    everywhere: list[Mutated] = []
    try:
        with tempfile.TemporaryDirectory() as name:
            async for repository, codebase in _codebases(Path(name)):
                request = EnvironmentRequest(
                    await codebase.build_tree(),
                    scope=repository,
                    as_of=await codebase.read_date(),
                    described=await codebase.describe(),
                )
                try:
                    image = await build_environment(held, request)
                except EnvironmentFailed as problem:
                    sys.stderr.write(f"  {repository}: not measured. {problem}\n")
                    continue
                async with held.open(image, run_id="bench") as sandbox:
                    store = DirStore(Path(name) / repository)
                    seen, how = await _measure_repository(repository, codebase, sandbox, store)
                rows += _report(repository, seen, how, statistics.median, "median")
                everywhere += seen
    finally:
        await held.close()
    if len(rows) > 2:  # of several repositories
        how = "all tests, of long suites estimated"
        rows += _report("all repositories", everywhere, how, sum, "sum")
    return rows


def _report(
    where: str, seen: list[Mutated], how: str, unite: Callable[[Iterable[float]], float], name: str
) -> list[Row]:
    if not seen:
        return []
    share = 100 * sum(one.found for one in seen) / len(seen)
    label = f"{where}: mutations found near the edit, of {len(seen)}"
    time_label = f"{where}: processor time of the near tests, {name}"
    near, whole = unite(one.near for one in seen), unite(one.whole for one in seen)
    return [
        Row(label, share, "%", "all tests that run the function", 100),
        Row(time_label, near, "s", how, whole),
    ]


async def _codebases(folder: Path) -> AsyncIterator[tuple[str, Codebase]]:
    trees = os.environ.get("TREES", "")  # noqa: TID251 - how make passes it on
    for repository, commit in REPOSITORIES.items() if trees else ():
        if clone := find_clone(Path(trees), repository):
            yield repository, await Codebase.open(clone, commit)
    if not trees:
        package = unpack(fetch_release(Settings.from_env().data_dir / "cache"))
        yield "marshmallow", await make_codebase(folder / "repo.git", package)


async def _measure_repository(
    repository: str, codebase: Codebase, sandbox: Sandbox, store: DirStore
) -> tuple[list[Mutated], str]:
    """What is found, and what the time is compared with."""
    commands = await find_commands(codebase)
    # SymPy's own script records no functions; pytest runs the same tests.
    command = next((one for one in commands if one.kind != "files"), commands[0])
    runner = TestRunner(command, sandbox=sandbox, store=store, seconds=BASE_SECONDS)
    base = await runner.run("", RequestedTests(functions=True))
    some: list[str] = []
    if not base.suite.passed and not base.ended:  # collecting all files takes longer
        files = [file.path for file in find_test_files(codebase.files.values())]
        some = sorted(random.Random(SEED).sample(files, max(1, len(files) // SAMPLED)))
        base = await runner.run("", RequestedTests(functions=True, files=tuple(some)))
    plain = await runner.run() if base.ended and not some else None
    sys.stderr.write(
        f"  {repository}: {len(base.suite.passed)} tests, ended: {base.ended}. {base.problem}\n"
    )
    sources = {path: await codebase.read_text(path) or "" for path in _sources(codebase)}
    scanned = await scan_code(sources)
    near = NearbyTests(Workspace(sandbox, codebase, store, Options()))
    every = list(mutations(sources, prefix=""))
    seen: list[Mutated] = []
    began = time.monotonic()
    for diff in random.Random(SEED).sample(every, len(every)):
        if len(seen) == MUTATIONS or time.monotonic() - began > REPOSITORY_SECONDS:
            break
        feeling = tests_that_ran(base, find_touched(diff, scanned.functions))
        feeling &= set(base.suite.passed)
        if not feeling:
            continue
        after = await runner.run(diff, tests_to_run(sorted(feeling), base))
        if not feeling - set(after.suite.passed):
            continue
        report = await near.compare(diff)
        cost = _cpu(report.after.execution) if report else 0.0
        whole = _cpu(plain.suite.execution) if plain else near.whole_seconds.get(diff, 0.0)
        seen.append(Mutated(bool(report and report.broken), cost, whole))
        sys.stderr.write(f"  {repository}: {seen[-1]}\n")
    return seen, "all tests" if plain else "all tests, estimated"


def _sources(codebase: Codebase) -> list[str]:
    return [path for path in codebase.files if path.endswith(".py") and not is_test(path)][:4000]


def _cpu(execution: Execution) -> float:
    return execution.seconds if execution.cpu_seconds is None else execution.cpu_seconds


_SWAPS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Is: (" is ", " is not "),
    ast.IsNot: (" is not ", " is "),
    ast.In: (" in ", " not in "),
    ast.Eq: (" == ", " != "),
    ast.NotEq: (" != ", " == "),
}


def tests_to_run(tests: Collection[str], base: TestRun) -> RequestedTests:
    paths = {base.files[name] for name in tests}
    return RequestedTests(tests=tuple(sorted(tests)), files=tuple(sorted(paths)))


def mutations(texts: dict[str, str], prefix: str = "src/") -> Iterator[str]:
    """Diffs that turn one comparison on one line of the package around."""
    for path, text in sorted(texts.items()):
        if not path.startswith(prefix) or not path.endswith(".py"):
            continue
        lines = text.splitlines(keepends=True)
        for node in ast.walk(_parse(text)):
            if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
                old, new = _SWAPS[type(node.ops[0])]
                line = lines[node.lineno - 1]
                if line.count(old) == 1:
                    after = list(lines)
                    after[node.lineno - 1] = line.replace(old, new)
                    yield "".join(difflib.unified_diff(lines, after, f"a/{path}", f"b/{path}"))


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])
