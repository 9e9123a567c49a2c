"""A repository's own tests in the real sandbox, told apart one by one."""

import re
from pathlib import Path

from pipeline.concurrency import gather_all
from pipeline.data.progress import Doing
from pipeline.languages.python.commands import PythonCommand
from pipeline.regression.command import RequestedTests
from pipeline.regression.counts import CountReporter
from pipeline.regression.runner import TestRunner
from pipeline.store import DirStore
from sandbox.docker.docker_engine import DockerEngine
from sandbox.engine import EnvironmentRequest
from sandbox.execution.session import SandboxSession
from sandbox.frozen import replace
from sandbox.program import Ending
from tests.support.data.diffs import added_file
from tests.support.docker import build_environment, make_tree
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

COMMAND = PythonCommand(
    argv=("python", "-m", "pytest", "-q", "tests"), kind="pytest", source="configuration"
)
GOOD = "from shop import total\n\n\ndef test_nothing():\n    assert total(0, 0) == 0\n"
KILLING = "import os\n\n\ndef test_kill():\n    os.kill(os.getppid(), 9)\n"


ADDED = "tests/test_new.py"


async def test_each_test_is_reported_with_the_functions_it_ran(
    sandbox: SandboxSession, tmp_path: Path
) -> None:
    runner = TestRunner(COMMAND, sandbox=sandbox, store=DirStore(tmp_path), seconds=20)
    run = await runner.run(added_file(ADDED, GOOD), RequestedTests(functions=True))
    assert run.suite.passed == ("tests/test_new.py::test_nothing",)
    assert run.suite.failed == ("tests/test_total.py::test_total",)
    assert {run.names[number] for number in run.ran["src/shop/total.py:1"]} == {
        "tests/test_new.py::test_nothing",
        "tests/test_total.py::test_total",
    }
    assert run.ended


async def test_tests_that_kill_the_process_that_counts_them_have_not_passed(
    sandbox: SandboxSession, tmp_path: Path
) -> None:
    runner = TestRunner(COMMAND, sandbox=sandbox, store=DirStore(tmp_path), seconds=20)
    run = await runner.run(added_file(ADDED, KILLING))
    assert run.suite.passed == ()
    assert run.suite.execution.ending is Ending.KILLED
    assert not run.ended


SLOW: str = TEXTS["SLOW"]


async def test_how_far_the_tests_are_is_told_while_they_run(
    sandbox: SandboxSession, tmp_path: Path
) -> None:
    told: list[Doing] = []
    runner = TestRunner(
        COMMAND,
        sandbox=sandbox,
        store=DirStore(tmp_path),
        seconds=20,
        counts=CountReporter(told.append),
    )
    run = await runner.run(added_file(ADDED, SLOW))
    *counts, (end, none_left) = told
    assert counts
    assert all(count and 0 < count.done <= count.total == 51 for _, count in counts)
    assert (none_left, "51 results" in end) == (None, True)
    assert "capuchin-" not in run.suite.execution.output
    assert len(run.suite.passed) == 50


SLEEPING: str = TEXTS["SLEEPING"]


async def test_tests_that_sleep_are_not_taken_for_one_that_hangs(
    sandbox: SandboxSession, tmp_path: Path
) -> None:
    command = replace(COMMAND, argv=("python", "-m", "pytest", "tests/test_new.py"))
    # Less than all of them sleep, and more than lies between two counts of those that have begun.
    runner = TestRunner(command, sandbox=sandbox, store=DirStore(tmp_path), seconds=2.5)
    hanging = SLEEPING.replace("time.sleep(0.9)", "time.sleep(n and 300)")
    run, hung = await gather_all(
        runner.run(added_file(ADDED, tests)) for tests in (SLEEPING, hanging)
    )
    assert len(run.suite.passed) == 4
    assert len(hung.suite.passed) == 1
    assert hung.suite.execution.limit == "idle"


RAISING: str = TEXTS["RAISING"]


async def test_which_exception_ended_a_test_is_known(
    sandbox: SandboxSession, tmp_path: Path
) -> None:
    for kind in ("pytest", "unittest"):
        argv = ("python", "-m", kind, "tests/test_new.py")
        command = replace(COMMAND, argv=argv, kind=kind)
        store = DirStore(tmp_path / kind)
        runner = TestRunner(command, sandbox=sandbox, store=store, seconds=20)
        run = await runner.run(added_file(ADDED, RAISING))
        raised = {re.split(r"\W", name)[-1]: error for name, error in run.suite.raised.items()}
        assert raised.pop("test_fetch") == "ConnectionRefusedError"
        assert raised == {"test_raise": "FileNotFoundError", "test_compare": "AssertionError"}
        assert len(run.suite.failed) == 2
        assert len(run.suite.offline) == 1


ORDERED = "def test_1(): pass\ndef test_2(): pass\ndef test_3(): pass\ndef test_4(): pass\n"


async def test_a_random_order_is_the_same_in_each_run_and_another_in_a_repeated_one(
    engine: DockerEngine, tmp_path: Path, run_id: str
) -> None:
    tree = make_tree(tmp_path / "tree", {"test_order.py": ORDERED})
    setup = ["pip install pytest pytest-randomly"]
    image = await build_environment(engine, EnvironmentRequest(tree, setup=setup, run_id=run_id))
    command = replace(COMMAND, argv=("python", "-m", "pytest", "-v"))
    seeds: list[str] = []
    async with engine.open(image, run_id=run_id) as sandbox:
        for number, attempt in enumerate((0, 0, 1)):
            store = DirStore(tmp_path / str(number))
            runner = TestRunner(command, sandbox=sandbox, store=store, seconds=20)
            run = await runner.run(attempt=attempt)
            assert len(run.suite.passed) == 4
            lines = run.suite.execution.output.splitlines()
            seeds += [line for line in lines if "randomly" in line and "seed" in line]
    assert [seed.rpartition("=")[2] for seed in seeds] == ["0", "0", "1"]


FAILING: str = TEXTS["FAILING"]


async def test_of_many_failures_the_first_fifty_are_shown_with_their_source(
    sandbox: SandboxSession, tmp_path: Path
) -> None:
    argv = ("python", "-m", "pytest", "-q", "--tb=short", "tests/test_new.py")
    command = PythonCommand(argv=argv, kind="pytest", source="configuration")
    runner = TestRunner(command, sandbox=sandbox, store=DirStore(tmp_path), seconds=20)
    suite = (await runner.run(added_file(ADDED, FAILING))).suite
    assert len(suite.failed) == 53
    shown = suite.execution.output.splitlines()
    at = shown.index("E   assert 49 < 0")
    assert shown[at - 1] == "    assert n < 0"
    assert shown[at + 2] == "E   assert 50 < 0"
