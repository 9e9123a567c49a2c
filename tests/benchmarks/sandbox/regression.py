"""Tests chosen for an edit against the whole suite, on marshmallow 3.0.0 with seeded mutations.

Each mutation changes one operator or constant of the package. The time allowed is a half of what
the whole suite takes without an edit. Mutations that the whole suite does not find are left out.
"""

from __future__ import annotations

import ast
import difflib
import random
import statistics
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from bot.settings import Settings
from capuchin_demo.package import fetch_release, unpack
from pipeline.data.options import Options
from pipeline.languages.code_scan import CodeScan
from pipeline.languages.python.import_graph import scan_code
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.regression.select_tests import choose_tests, find_touched
from pipeline.store import DirStore
from sandbox.engine import EnvironmentRequest
from tests.benchmarks.sandbox.warm_engine import engine
from tests.benchmarks.table import Row
from tests.support.data.repositories import make_codebase
from tests.support.docker import build_environment

MUTATIONS = 12
ALLOWED = 0.5
SEED = 3
_SWAPS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Is: (" is ", " is not "),
    ast.IsNot: (" is not ", " is "),
    ast.In: (" in ", " not in "),
    ast.Eq: (" == ", " != "),
    ast.NotEq: (" != ", " == "),
}


@dataclass(frozen=True)
class MutationResult:
    """Seconds, and whether any test broke, of one mutation."""

    whole: float
    chosen: float
    tests: int
    found: bool
    by_chance: bool
    """The same for as many tests, drawn at random."""


async def measure() -> list[Row]:
    package = unpack(fetch_release(Settings.from_env().data_dir / "cache"))
    held = engine("warm")
    try:
        with tempfile.TemporaryDirectory() as name:
            codebase = await make_codebase(Path(name) / "repo.git", package)
            image = await build_environment(held, EnvironmentRequest(await codebase.build_tree()))
            async with held.open(image, run_id="bench") as sandbox:
                runner = TestRunner(
                    (await find_commands(codebase))[-1],
                    sandbox=sandbox,
                    store=DirStore(Path(name) / "store"),
                    seconds=Options().suite_seconds,
                )
                return await _rows(
                    runner, {p: d.decode("utf-8", "replace") for p, d in package.items()}
                )
    finally:
        await held.close()


async def _rows(runner: TestRunner, texts: dict[str, str]) -> list[Row]:
    base = await runner.run("", RequestedTests(functions=True))
    plain = await runner.run()
    scanned = await scan_code(texts)
    source = random.Random(SEED)
    every = list(mutations(texts))
    seen: list[MutationResult] = []
    for diff in source.sample(every, len(every)):
        if len(seen) < MUTATIONS and (
            one := await _measure_mutation(runner, base, scanned, diff, source)
        ):
            seen.append(one)
    whole = len(plain.suite.passed)
    share = 100 / len(seen)
    return [
        Row(
            "tests chosen for a mutation, median",
            statistics.median(one.tests for one in seen),
            "tests",
            "the whole suite",
            whole,
        ),
        Row(
            "their run, median",
            statistics.median(one.chosen for one in seen),
            "s",
            "the whole suite",
            statistics.median(one.whole for one in seen),
        ),
        Row(
            f"mutations found of {len(seen)}",
            share * sum(one.found for one in seen),
            "%",
            "as many tests at random",
            share * sum(one.by_chance for one in seen),
        ),
        Row(
            "the suite with functions recorded",
            base.suite.execution.seconds,
            "s",
            "without",
            plain.suite.execution.seconds,
        ),
    ]


async def _measure_mutation(
    runner: TestRunner, base: TestRun, scanned: CodeScan, diff: str, source: random.Random
) -> MutationResult | None:
    """None where the whole suite does not find it."""
    whole = await runner.run(diff)
    if not set(base.suite.passed) - set(whole.suite.passed):
        return None
    touched = find_touched(diff, scanned.functions)
    distances = scanned.distances(touched.files)
    allowed = base.suite.execution.seconds * ALLOWED
    choice = choose_tests(base, touched, distances, seconds=allowed)
    chosen = await runner.run(diff, tests_to_run(choice.tests, base))
    drawn = source.sample(base.suite.passed, len(choice.tests))
    random_run = await runner.run(diff, tests_to_run(drawn, base))
    return MutationResult(
        whole.suite.execution.seconds,
        chosen.suite.execution.seconds,
        len(choice.tests),
        found=bool(set(choice.tests) - set(chosen.suite.passed)),
        by_chance=bool(set(drawn) - set(random_run.suite.passed)),
    )


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
