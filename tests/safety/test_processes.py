"""Processes that multiply, hide, refuse to end, or reach for others."""

import base64
import json
import zlib

import pytest

from pipeline.regression.runner import WRAPPER_SOURCE
from sandbox.docker.cold_execution import END_SECONDS
from sandbox.errors import SandboxUnavailable
from sandbox.execution.session import SandboxSession
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.program import Ending, Program
from tests.support.attack_scripts import MANY_PROCESSES
from tests.support.docker import Execute
from tests.support.own_docker_daemon import OwnDaemon
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)


async def test_a_fork_bomb_ends_with_its_time(execute: Execute, gvisor: OwnDaemon | None) -> None:
    bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass\n"
    run = await execute(bomb, seconds=1)
    # In gVisor's kernel so many processes may be too much for the memory first.
    assert run.ending in ({Ending.TIMEOUT, Ending.MEMORY} if gvisor else {Ending.TIMEOUT})


async def test_the_number_of_processes_has_an_end(
    execute: Execute, gvisor: OwnDaemon | None
) -> None:
    run = await execute(MANY_PROCESSES)
    # In gVisor's kernel so many may be too much for the memory first.
    assert run.output == "11 True\n" or (gvisor and run.ending is Ending.MEMORY)


async def test_daemons_that_hold_the_output_die_with_their_parent(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.program.WALL_MARGIN", 60)  # if they live, not for ten minutes
    run = await execute(TEXTS["DAEMONS"], seconds=10)
    assert (run.ending, run.exit_code, run.output) == (Ending.EXIT, 0, "parent done\n")


async def test_ignoring_every_signal_buys_no_time(execute: Execute) -> None:
    run = await execute(TEXTS["IGNORE_SIGNALS"], seconds=3)
    # It never ends by itself: that there is an end, and by this limit, is what is shown.
    assert (run.ending, run.limit, run.output) == (Ending.TIMEOUT, "idle", "ready\n")


async def test_no_program_gets_more_processor_time_than_its_limit(execute: Execute) -> None:
    run = await execute("while True: pass", seconds=1)
    assert (run.ending, run.limit) == (Ending.TIMEOUT, "processor time")
    assert run.cpu_seconds is not None
    # The kernel's two accounts of it differ by some milliseconds.
    assert 0.9 < run.cpu_seconds < 25, "it has its own limit, not the 30 seconds of others"


async def test_the_host_ends_what_the_container_does_not(
    execute: Execute, mode: ConfiguredMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock is the last one: here it strikes before those in the container, which say so."""
    if mode == "warm":
        pytest.skip("the clock of a warm container is its supervisor's")
    monkeypatch.setattr("sandbox.program.WALL_FACTOR", 0)
    monkeypatch.setattr("sandbox.program.WALL_MARGIN", 2 - END_SECONDS)
    run = await execute("while True: pass", seconds=20)
    assert (run.ending, run.limit) == (Ending.TIMEOUT, "")


async def test_the_supervising_processes_cannot_be_reached(execute: Execute) -> None:
    run = await execute(TEXTS["REACH"])
    assert (run.exit_code, run.output) == (9, "")


async def test_no_signal_ends_the_supervising_processes(execute: Execute) -> None:
    try:
        run = await execute(TEXTS["SIGNALS"])
    except SandboxUnavailable as error:
        pytest.fail(f"process 1 was brought down: {error}")
    assert (run.exit_code, run.output) == (9, "")


async def test_the_memory_layout_of_process_1_is_hidden(execute: Execute) -> None:
    run = await execute("open('/proc/1/maps').read(1)")
    assert run.exit_code == 1
    assert "PermissionError" in run.output


@pytest.mark.parametrize(
    "text",
    [
        '{"ended": 0, "seconds": 0}',
        '{"run": "x", "end": "exit"}',
        '{"exit": 2, "seconds": 0, "oom": 0}',
    ],
)
async def test_an_end_cannot_be_forged_by_printing_one(execute: Execute, text: str) -> None:
    code = f"import os\nfor fd in (1, 2): os.write(fd, {(text + chr(10)).encode()!r})\nos._exit(2)"
    run = await execute(code)
    assert (run.exit_code, run.output) == (2, f"{text}\n{text}\n")


async def test_what_one_execution_leaves_in_the_kernel_is_not_there_for_the_next(
    execute: Execute,
) -> None:
    assert (await execute(TEXTS["LEAVE"])).passed
    run = await execute(TEXTS["LOOK"])
    assert (run.exit_code, run.output) == (0, "-1 -1 -1\n")


async def test_tests_cannot_open_the_memory_of_what_reports_their_results(
    sandbox: SandboxSession,
) -> None:
    attack = (
        "import os\n"
        "try:\n    open('/proc/%d/mem' % os.getppid(), 'r+b')\n"
        "except OSError as error:\n    print('refused')\n"
        "else:\n    print('open')\n"
    )
    request = {
        "argv": ["python", "-c", attack],
        "mark": "mark",
        "seconds": 60,
        "wall": None,
        "junit": False,
        "files": {},
        "variables": {},
        "addopts": "",
        "wanted": {"tests": None},
    }
    packed = base64.b64encode(zlib.compress(json.dumps(request).encode())).decode()
    run = await sandbox.run(Program(("python", "-I", "-c", WRAPPER_SOURCE, packed)))
    assert run.output.split()[0] == "refused"
