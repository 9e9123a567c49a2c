"""Can this host hold warm lanes? Found out by running one execution that needs every part."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from sandbox.base import Execution, PatchRejected, SandboxUnavailable
from sandbox.execution.cancellation import Alone, stoppable
from sandbox.execution.job import Job
from sandbox.execution.warm_pool import Lanes, WarmAttempt
from sandbox.execution.warm_worker import NoLane
from sandbox.layout import CHECKOUT, ENVIRONMENT, PROGRAM_ENVIRONMENT, TREE
from sandbox.limits import Limits

Mode = Literal["auto", "warm", "cold"]

EDIT = """\
--- /dev/null
+++ b/capuchin-probe/one.py
@@ -0,0 +1 @@
+ONE = 1
"""
PROGRAM = """
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
    print("walls stand")
"""


class Tier:
    """Which of the two ways executions are held: decided once, by trying."""

    def __init__(self, mode: Mode) -> None:
        self.missing = "it was asked for" if mode == "cold" else None
        """Why each execution gets a container of its own; empty for lanes, None if unknown yet."""
        self._mode = mode
        self._lock = threading.Lock()

    async def is_warm(self, pool: ThreadPoolExecutor, lanes: Lanes) -> bool:
        """Raises `SandboxUnavailable` if Docker fails, or if only lanes were allowed."""
        if self.missing is None:
            await stoppable(pool, Alone(Probe(self, lanes), self._lock))
        if self.missing and self._mode == "warm":
            raise SandboxUnavailable(f"This host cannot hold warm sandboxes: {self.missing}")
        return not self.missing

    def __str__(self) -> str:
        if self.missing is None:
            return "warm sandboxes not tried yet"
        if self.missing:
            return f"one container for each execution, because {self.missing}"
        return "warm sandboxes"


class Probe:
    """Tells `tier` what is missing on this host."""

    def __init__(self, tier: Tier, lanes: Lanes) -> None:
        job = Job(
            steps=[(f"{ENVIRONMENT}/bin/python", "-I", "-S", "-c", PROGRAM)],
            checkout=CHECKOUT,
            environment=PROGRAM_ENVIRONMENT,
            tree=TREE,
            diffs=[EDIT],
        )
        self._tier = tier
        self._attempt = WarmAttempt(lanes, job, limits=Limits(seconds=30))

    def stop(self) -> None:
        self._attempt.stop()

    def run(self) -> None:
        """Raises `SandboxUnavailable`, and `Stopped` after `stop`."""
        if self._tier.missing is not None:
            return  # somebody else was faster
        try:
            self._tier.missing = missing(self._attempt.run())
        except (PatchRejected, NoLane) as error:
            self._tier.missing = str(error)


def missing(found: Execution) -> str:
    if found.passed and found.output == "walls stand\n":
        return ""
    last = found.output.strip().splitlines()[-1:] or [f"it ended by {found.ending}"]
    return f"The probe failed: {last[0][:200]}"
