"""Does this host support warm containers? Found out by one execution that needs every part."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from sandbox.base import Execution
from sandbox.errors import PatchRejected, SandboxUnavailable
from sandbox.execution.cancellation import ExclusiveWork, run_stoppable
from sandbox.execution.job import Job
from sandbox.execution.warm_pool import WarmExecution, WarmPool
from sandbox.execution.warm_worker import NoWarmContainer
from sandbox.layout import CHECKOUT, ENVIRONMENT, PROGRAM_ENVIRONMENT, TREE
from sandbox.limits import Limits

ConfiguredMode = Literal["auto", "warm", "cold"]

PROBE_EDIT = """\
--- /dev/null
+++ b/capuchin-probe/one.py
@@ -0,0 +1 @@
+ONE = 1
"""
PROBE_PROGRAM = """
import os, shutil
assert os.getuid() == 10001 and os.getpid() == 2
assert sorted(os.listdir("capuchin-probe")) == ["one.py"]
shutil.rmtree("capuchin-probe")
os.mkdir("capuchin-probe")
assert os.listdir("capuchin-probe") == []  # needs extended attributes in a tmpfs
os.rename("capuchin-probe", "renamed")
assert set(os.listdir("/proc/self/fd")) == {"0", "1", "2", "3"}
assert not os.path.exists("/opt/capuchin/entry.py")
for line in open("/proc/self/status"):
    name, _, value = line.partition(":")
    assert name not in ("CapPrm", "CapEff", "CapBnd") or int(value, 16) == 0
    assert name != "NoNewPrivs" or int(value) == 1
    assert name != "Seccomp_filters" or int(value) >= 1
try:
    os.stat("/proc/1/fd/0")
except OSError:
    print("isolated")
"""


class ExecutionMode:
    """Whether executions run in warm containers or in one container each: tried once."""

    def __init__(self, mode: ConfiguredMode) -> None:
        self.cold_reason = "the settings ask for it" if mode == "cold" else None
        """Why each execution gets a container of its own; empty: none does; None: not tried."""
        self._configured = mode
        self._lock = threading.Lock()

    async def is_warm(self, pool: ThreadPoolExecutor, warm_pool: WarmPool) -> bool:
        """Raises `SandboxUnavailable` if Docker fails or the host lacks required support."""
        if self.cold_reason is None:
            await run_stoppable(pool, ExclusiveWork(Probe(self, warm_pool), self._lock))
        if self.cold_reason and self._configured == "warm":
            raise SandboxUnavailable(
                f"This host does not support warm sandboxes: {self.cold_reason}"
            )
        return not self.cold_reason

    def __str__(self) -> str:
        if self.cold_reason is None:
            return "warm sandboxes not tried yet"
        if self.cold_reason:
            return f"one container for each execution, because {self.cold_reason}"
        return "warm sandboxes"


class Probe:
    """Sets `mode.cold_reason` to what is missing on this host."""

    def __init__(self, mode: ExecutionMode, warm_pool: WarmPool) -> None:
        job = Job(
            steps=[(f"{ENVIRONMENT}/bin/python", "-I", "-S", "-c", PROBE_PROGRAM)],
            checkout=CHECKOUT,
            environment=PROGRAM_ENVIRONMENT,
            tree=TREE,
            diffs=[PROBE_EDIT],
        )
        self._mode = mode
        self._execution = WarmExecution(warm_pool, job, limits=Limits(seconds=30))

    def stop(self) -> None:
        self._execution.stop()

    def run(self) -> None:
        """Raises `SandboxUnavailable`, and `Stopped` after `stop`."""
        if self._mode.cold_reason is not None:
            return  # another thread was faster
        try:
            self._mode.cold_reason = probe_problem(self._execution.run())
        except (PatchRejected, NoWarmContainer) as error:
            self._mode.cold_reason = str(error)


def probe_problem(found: Execution) -> str:
    if found.passed and found.output == "isolated\n":
        return ""
    last = found.output.strip().splitlines()[-1:] or [f"it ended by {found.ending}"]
    return f"The probe failed: {last[0][:200]}"
