"""A repository's own tests that never end, print without end, delete themselves, want a display."""

from pathlib import Path

from pipeline.data.options import Options
from pipeline.regression.runner import TOO_LONG
from pipeline.regression.suite import RegressionSuite
from pipeline.resources import Workspace
from pipeline.store import DirStore
from sandbox.docker.docker_engine import DockerEngine
from sandbox.engine import EnvironmentRequest
from tests.support.data.repositories import make_codebase
from tests.support.docker import any_engine, build_environment

__all__ = ["any_engine"]

HEAD = """\
import os, pathlib, shutil, unittest


class Test(unittest.TestCase):
    def test(self):
"""
BODIES = {
    "never": "while True:\n    pass\n",
    "prints": "while True:\n    print('x' * 100_000)\n",
    "deletes": (
        "for path in pathlib.Path.cwd().iterdir():\n"
        "    shutil.rmtree(path) if path.is_dir() else path.unlink()\n"
        "self.assertEqual(os.listdir(), [])\n"
    ),
    "window": "os.environ['DISPLAY']\n",
}
ENDLESS = ("never", "prints")
FILES = {
    "shop.py": "TOTAL = 1\n",
    "tests/__init__.py": "",
    **{
        f"tests/test_{name}.py": HEAD + "".join(f"        {line}\n" for line in body.splitlines())
        for name, body in BODIES.items()
    },
}
EDIT = "--- a/shop.py\n+++ b/shop.py\n@@ -1 +1 @@\n-TOTAL = 1\n+TOTAL = 2\n"


async def test_each_is_told_in_a_sentence_and_nothing_is_lost(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    codebase = await make_codebase(tmp_path / "repo.git", FILES)
    request = EnvironmentRequest(await codebase.build_tree(), setup=["true"], run_id=run_id)
    said: dict[str, str] = {}
    async with engine.open(await build_environment(engine, request), run_id=run_id) as sandbox:
        for name in BODIES:
            command = ("python", "-m", "unittest", "-v", f"tests.test_{name}")
            seconds = 1.5 if name in ENDLESS else 100
            options = Options(test_command=command, suite_seconds=seconds, nearby_seconds=0)
            store = DirStore(tmp_path / name)
            suite = RegressionSuite(Workspace(sandbox, codebase, store, options))
            report = await suite.compare(EDIT)
            said[name] = suite.problem
            if name == "deletes":  # with the edit it finds all that it deleted without
                assert report is not None
                assert report.after.passed == (f"tests.test_{name}.Test.test",)
                assert report.broken == ()
    assert "timeout" in said["never"]
    assert any(end in said["prints"] for end in (TOO_LONG, "timeout"))
    assert "1 need a network, a display or a service" in said["window"]


async def test_a_suite_that_prints_100_mb_is_told_so_and_little_of_it_is_kept(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    """By the lines that carry the results, and beside a report in a file."""
    noise = "yes noise | head -c 100000000"
    report = '<testsuite><testcase name="any"/></testsuite>'
    files = {
        "Makefile": f"all:\n\ntest:\n\t@echo ok 1 - any\n\t@{noise}\n",
        "loud.sh": f"{noise}; echo '{report}' >junit.xml\n",
        "one.zig": "1\n",
    }
    codebase = await make_codebase(tmp_path / "repo.git", files)
    request = EnvironmentRequest(await codebase.build_tree(), setup=["true"], run_id=run_id)
    edit = "--- a/one.zig\n+++ b/one.zig\n@@ -1 +1 @@\n-1\n+2\n"
    async with engine.open(await build_environment(engine, request), run_id=run_id) as sandbox:
        for command in ((), ("sh", "loud.sh")):
            options = Options(test_command=command, nearby_seconds=0)
            store = DirStore(tmp_path / f"store{len(command)}")
            suite = RegressionSuite(Workspace(sandbox, codebase, store, options))
            assert await suite.compare(edit) is None
            assert TOO_LONG in suite.problem
            saved = sum(path.stat().st_size for path in store.root.rglob("*") if path.is_file())
            assert saved < 100_000
