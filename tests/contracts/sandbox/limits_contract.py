"""Programs that never end, fork, fill and print: each is stopped and its end named rightly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox.execution.session import SandboxSession
from sandbox.program import Ending, Program, python_script
from tests.support.docker import Execute

STUBBORN = """
import os, signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
print("started", flush=True)
if os.fork() == 0:
    os.setsid()
    os.fork()
while True:
    signal.pause()
"""
"""Nothing but being killed ends it, or its children."""


async def test_a_tree_of_processes_that_ignores_signals_is_killed_in_time(execute: Execute) -> None:
    run = await execute(STUBBORN, seconds=3)
    assert (run.ending, run.exit_code, run.output) == (Ending.TIMEOUT, None, "started\n")
    assert run.limit == "idle"
    assert run.seconds >= 3


async def test_a_program_that_may_wait_does_nothing_for_as_long_as_it_likes(
    sandbox: SandboxSession,
) -> None:
    # The one that is to be ended sleeps long enough for a busy machine to notice.
    endless, waiting = (
        python_script(f"import time\ntime.sleep({slept})\nprint('done')", seconds=1)
        for slept in (60, 3)
    )
    assert (await sandbox.run(endless)).limit == "idle"
    run = await sandbox.run(replace(waiting, may_wait=True))
    assert (run.ending, run.output) == (Ending.EXIT, "done\n")


BUSY = """
import os, time
for _ in range(100):
    child = os.fork()
    if child == 0:
        while time.process_time() < {burn}:
            pass
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep({sleep})
    if time.monotonic() - {begun} > 4:
        break
print("done")
"""


async def test_processor_time_of_all_processes_is_limited(execute: Execute) -> None:
    script = BUSY.format(burn=0.5, sleep=0, begun="time.monotonic()")
    run = await execute(script, seconds=1)
    assert (run.ending, run.limit, run.exit_code) == (Ending.TIMEOUT, "processor time", None)
    assert run.cpu_seconds is not None
    assert 0.75 <= run.cpu_seconds < 25, "of the 50 seconds that its children want"


async def test_a_program_that_is_slow_because_of_others_is_not_killed(execute: Execute) -> None:
    """It waits four fifths of the time, as on a busy host, and takes twice its limit."""
    script = "import time\nbegun = time.monotonic()\n" + BUSY.format(
        burn=0.05, sleep=0.2, begun="begun"
    )
    run = await execute(script, seconds=2)
    assert (run.ending, run.exit_code) == (Ending.EXIT, 0)
    assert run.seconds > 4


async def test_a_daemon_that_holds_the_output_does_not_delay_the_end(execute: Execute) -> None:
    run = await execute("""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
print("parent done")
""")
    # Who waits for the daemon, waits until that is killed: by the limit for doing nothing.
    assert (run.ending, run.exit_code, run.output) == (Ending.EXIT, 0, "parent done\n")


async def test_endless_output_is_stopped_and_both_ends_kept(sandbox: SandboxSession) -> None:
    # A busy host reads it slowly, and while nobody reads, the program does nothing.
    run = await sandbox.run(Program(["yes", "capuchin"], seconds=300))
    assert (run.ending, run.exit_code) == (Ending.OUTPUT, None)
    assert run.output.startswith("capuchin\ncapuchin\n")
    assert "bytes of output left out here" in run.output
    assert len(run.output) < 70_000


@pytest.mark.parametrize(
    "script",
    [
        "hoard = []\nwhile True: hoard.append(bytearray(1 << 20))",
        "import os\nif os.fork() == 0: hoard = bytearray(2 << 30)\nelse: print(os.wait()[1])",
        "open('/tmp/a','wb').write(bytes(60 << 20)); open('a','wb').write(bytes(60 << 20))\n"
        "hoard = bytearray(200 << 20); print(len(hoard))",
    ],
    ids=["one process", "a child", "files count"],
)
async def test_too_much_memory_is_called_that(execute: Execute, script: str) -> None:
    run = await execute(script)
    assert (run.ending, run.exit_code) == (Ending.MEMORY, None)


async def test_a_fork_bomb_is_contained_and_the_next_run_is_well(execute: Execute) -> None:
    bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass\n"
    run = await execute(bomb, seconds=1)
    assert run.ending is Ending.TIMEOUT
    assert (await execute("print('well')")).output == "well\n"


async def test_files_are_limited_in_size_and_number(execute: Execute) -> None:
    run = await execute("""
import os
for place in (".", "/tmp", "/dev/shm"):
    path, size = os.path.join(place, "big"), 0
    try:
        with open(path, "wb", buffering=0) as file:
            while True:
                size += file.write(bytes(1 << 20))
    except OSError as error:
        print(place, error.errno, size >> 20 <= 64)
    os.unlink(path)
status = os.statvfs("/tmp")
print(status.f_files)
""")
    assert run.output == ". 28 True\n/tmp 28 True\n/dev/shm 28 True\n200000\n"


async def test_a_program_killed_by_its_own_signal_has_no_exit_code(execute: Execute) -> None:
    run = await execute("import os; print('x', flush=True); os.kill(os.getpid(), 9)")
    assert (run.ending, run.exit_code, run.output) == (Ending.KILLED, None, "x\n")
    crash = await execute("import os; os.abort()")
    assert crash.ending is Ending.KILLED
