"""The monitor of an execution, with a program whose output is under the test's control."""

import os
import subprocess
import sys
import time

import pytest

from sandbox.guest.supervisor.process import SandboxProcess
from sandbox.guest.supervisor.time_limit import TimeLimit
from sandbox.guest.supervisor.watch import ExecutionLimits, ExecutionMonitor, GuestEnding

LIMITS = ExecutionLimits(seconds=100, output_kept=10_000, output_total=100_000)
PROGRAM = """\
import os, sys, time
output, status = map(int, sys.argv[1:])
os.write(status, b'{"ready": true}\\n')
for _ in range(300):
    os.write(output, b".")
    time.sleep(0.001)
os.write(status, b'{"ended": 0, "cpu_seconds": 0.5, "peak_kb": 9}\\n')
"""


def test_much_output_in_small_pieces_costs_no_look_at_the_time_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float] = []
    find_exceeded = TimeLimit.find_exceeded

    def find(self: TimeLimit) -> str:
        looks.append(time.monotonic())
        return find_exceeded(self)

    monkeypatch.setattr(TimeLimit, "find_exceeded", find)
    output, output_end = os.pipe()
    status, status_end = os.pipe()
    control, control_end = os.pipe()
    argv = [sys.executable, "-c", PROGRAM, str(output_end), str(status_end)]
    with subprocess.Popen(argv, pass_fds=(output_end, status_end)) as program:
        for end in (output_end, status_end):
            os.close(end)
        process = SandboxProcess(program.pid, control_end, output, status)
        monitor = ExecutionMonitor(process, LIMITS, control=control, is_wanted=lambda: True)
        began = time.monotonic()
        result = monitor.wait_for_result()
        seconds = time.monotonic() - began
        program.wait()
    process.close()
    os.close(control)
    os.close(control_end)
    assert (result.end, result.code, result.output.text()) == (GuestEnding.EXIT, 0, "." * 300)
    assert len(looks) <= seconds / TimeLimit(LIMITS.seconds).pause
