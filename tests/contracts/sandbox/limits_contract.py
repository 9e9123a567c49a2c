"""When a program is stopped, and what its end is called; `tests/safety` has the hostile ones."""

from dataclasses import replace

from sandbox.execution.session import SandboxSession
from sandbox.program import Ending, python_script
from tests.support.docker import Execute


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


async def test_a_program_killed_by_its_own_signal_has_no_exit_code(execute: Execute) -> None:
    run = await execute("import os; print('x', flush=True); os.kill(os.getpid(), 9)")
    assert (run.ending, run.exit_code, run.output) == (Ending.KILLED, None, "x\n")
    crash = await execute("import os; os.abort()")
    assert crash.ending is Ending.KILLED
