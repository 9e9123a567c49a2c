"""A repository as large as one may be keeps nothing else of a worker waiting."""

import asyncio
from pathlib import Path

import pytest

from pipeline.data.options import Options
from pipeline.data.types import Issue
from pipeline.edits.external import ExternalEdit
from pipeline.languages.registry import aim
from pipeline.resources import Workspace
from pipeline.select import ExternalJudge, ExternalTest
from pipeline.store import DirStore
from sandbox.program import CommandRun, Ending, Execution, Program
from tests.support import loop_watch
from tests.support.data.large_repositories import stream_repository

SCRIPT = "import sys\nfrom till import total\nsys.exit(0 if total(1, 2) == 3 else 2)\n"


class Quick:
    """A sandbox in which the first script passes with every edit."""

    script: str | None = None

    async def run(self, program: Program) -> Execution:
        self.script = self.script or program.script
        passes = bool(program.diffs) and program.script in (None, self.script)
        return Execution(exit_code=0 if passes else 2, output="", seconds=0.1, ending=Ending.EXIT)

    async def run_command(self, program: Program) -> CommandRun:
        raise NotImplementedError


async def test_a_choice_among_edits_of_290_000_files_never_stalls_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "STALL_SECONDS", 0.1)
    paths = (f"src/{'folder' * 7}_{n % 977}/{'module' * 12}_{n}.py" for n in range(290_000))
    text = b"def total(a, b):\n    return a - b\n"
    codebase = await stream_repository(tmp_path / "r.git", ("till.py", *paths), text)
    codebase = await asyncio.to_thread(aim, codebase, "")
    workspace = Workspace(Quick(), codebase, DirStore(tmp_path / "store"), Options())
    head = "--- a/till.py\n+++ b/till.py\n@@ -1,2 +1,2 @@\n def total(a, b):\n-    return a - b\n"
    edits = [ExternalEdit(one, f"{head}+    return {one}\n".encode()) for one in ("a + b", "b + a")]
    issue = Issue(repository="acme/shop", title="total() subtracts", body="It is in till.py.")
    judge = ExternalJudge(workspace, model=None, reward=None)
    chosen = await judge.choose(issue, edits, [ExternalTest("t", SCRIPT)])
    assert chosen.judged.chosen is not None
