"""Real fixes in other languages: does detection alone tell the code before them from that after?

`make bench ONLY=languages TREES=FOLDER DATA=FOLDER` takes the instances of `DATA/instances.json`
(id, repository, base, fix, test_files, source_files, fail_to_pass) whose repositories TREES has as
bare clones; MOST limits their number, and IDS=id,id names some. No model is asked.
"""

import functools
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bot.cli.display import print_event
from bot.data.job import Job
from bot.data.run import RunId
from bot.runner.runner import PipelineRunner
from bot.settings import Settings
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.lab.recall import find_clone
from pipeline.regression.command import find_commands
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.store import DirStore
from sandbox.engine import Engine
from sandbox.errors import SandboxError
from tests.benchmarks.sandbox.warm_engine import engine
from tests.benchmarks.table import Row

SUITE_SECONDS = 300.0


async def measure() -> list[Row]:
    trees, data = (Path(os.environ.get(name, "")) for name in ("TREES", "DATA"))  # noqa: TID251 - how make passes it on
    listed = data / "instances.json"
    if not listed.is_file():
        sys.stderr.write("  Give clones and instances: make bench ONLY=languages TREES= DATA=\n")
        return []
    ids = set(filter(None, os.environ.get("IDS", "").split(",")))  # noqa: TID251
    most = int(os.environ.get("MOST", "") or 100)  # noqa: TID251
    rows: list[dict[str, Any]] = json.loads(listed.read_text("utf-8"))["instances"]
    wanted = [row for row in rows if not ids or row["id"] in ids][:most]
    held = engine("warm")
    told: list[bool] = []
    try:
        for row in wanted:
            if clone := find_clone(trees, row["repository"]):
                told.append(await _measure(row, clone, held))
    finally:
        await held.close()
    return [Row("real fixes told from the code before them", sum(told), "", "all", len(told))]


async def _measure(row: dict[str, Any], clone: Path, held: Engine) -> bool:
    """Whether a test fails with the fix's tests alone, passes with the fix, and none breaks."""
    codebase = await Codebase.open(clone, row["base"])
    tests, both = [
        (await git(clone, "diff", row["base"], row["fix"], "--", *paths)).decode()
        for paths in (row["test_files"], [*row["test_files"], *row["source_files"]])
    ]
    name, began = row["id"], time.monotonic()
    store = DirStore(Path("build/languages") / name / str(time.time_ns()))
    issue = Issue(repository=row["repository"], title="", body="")
    job = Job(RunId(f"bench-{name}"), issue, codebase, Options(), str(clone))
    runner = PipelineRunner(Settings.from_env(), held)
    try:
        async with runner.open_environment(
            job, store, functools.partial(print_event, of=name)
        ) as environment:
            best = environment.record.best
            line, installed = best.line() if best else "", time.monotonic() - began
            for command in await find_commands(codebase):
                suite = TestRunner(
                    command, sandbox=environment.sandbox, store=store, seconds=SUITE_SECONDS
                )
                red, green = await suite.run(tests), await suite.run(both)
                return _tell(name, red, green, row["fail_to_pass"], f"{installed:.0f} s. {line}")
    except SandboxError as error:
        line = " ".join(f"{error} {getattr(error, 'log', '')[-600:]}".split())
    sys.stderr.write(f"  {name}: no result. {line}\n")
    return False


def _tell(name: str, red: TestRun, green: TestRun, known: Sequence[str], line: str) -> bool:
    mended = set(green.suite.passed) & set(red.suite.failed)
    broken = set(red.suite.passed) & set(green.suite.failed)
    each = f"{len(red.suite.passed)}/{len(red.suite.failed)}"
    each += f" -> {len(green.suite.passed)}/{len(green.suite.failed)}"
    named = sum(any(test.endswith(k.rpartition("::")[2]) for test in mended) for k in known)
    told = bool(mended) and not broken and green.per_test
    problem = red.problem or green.problem
    word = "told" if told else "NOT told"
    sys.stderr.write(
        f"  {name}: {word}, passed/failed {each}, {named} of {len(known)} known, {line} {problem}\n"
    )
    return told
