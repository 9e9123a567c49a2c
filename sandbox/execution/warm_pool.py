"""The warm containers of one open sandbox, the order of executions in them, and the probe that
finds out whether this host supports them.

Blocking: runs in threads.
"""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

from sandbox.errors import PatchRejected, SandboxUnavailable
from sandbox.execution.cancellation import Stopped, run_stoppable, wait_or_stop
from sandbox.execution.jobs import Job, with_changes
from sandbox.execution.warm_worker import NoWarmContainer, WarmContainer, WarmContainerDied
from sandbox.layout import CHECKOUT, ENVIRONMENT, PROGRAM_ENVIRONMENT, TREE
from sandbox.observation import LEVELS, Level
from sandbox.program import BUILD_SECONDS, Ending, Execution, Limits

GRACE_SECONDS = 180
"""How much longer than the program's own limit a container may take before it counts as dead."""
STOP_SECONDS = 5
"""How long a container may take to kill a stopped execution; then it is killed itself."""
CROSS_DEVICE = "cross-device link"
"""Part of the messages of C and Node for EXDEV: perhaps the overlay refused to rename a folder of
the checkout. An execution that fails with it runs again on a full copy. A program that swallows the
error is not noticed: the kernel refuses an overlay that moves folders (`redirect_dir`) in a user
namespace, and to observe renames from outside, every rename would have to wait for us (seccomp's
notifications)."""
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


class WarmPool:
    """As many containers as executions run at once, each opened when it is first needed."""

    def __init__(self, open_container: Callable[[], WarmContainer]) -> None:
        """`open_container` starts a new one; raises `SandboxUnavailable`."""
        self._open_container = open_container
        self._guard = threading.Lock()
        self._idle: list[WarmContainer] = []
        self._tried_edits: set[tuple[str, ...]] = set()
        """The edits that some container has been asked to apply."""
        self._waiting: list[tuple[WarmExecution, Future[Execution]]] = []

    async def run(self, threads: ThreadPoolExecutor, job: Job, limits: Limits) -> Execution:
        """Run `job` in one of `threads`, when its turn has come.

        A thread that is free takes the cheapest execution that waits; of those that cost the same,
        the one that waits longest. On cancellation it is stopped, and its end waited for. Raises
        the errors of `Sandbox.run`.
        """
        execution = WarmExecution(self, job, limits=limits)
        answer: Future[Execution] = Future()
        with self._guard:
            self._waiting.append((execution, answer))
        threads.submit(self._run_cheapest).add_done_callback(self._cancel_if_shut_down)
        return await wait_or_stop(execution, answer)

    def _run_cheapest(self) -> None:
        with self._guard:
            # A cancelled execution leaves a task without work.
            self._waiting = [pair for pair in self._waiting if not pair[1].cancelled()]
            if not self._waiting:
                return
            pair = min(self._waiting, key=lambda pair: self._cost(pair[0].edit))
            self._waiting.remove(pair)
        execution, answer = pair
        if not answer.set_running_or_notify_cancel():
            return
        try:
            answer.set_result(execution.run())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting coroutine
            answer.set_exception(error)

    def _cancel_if_shut_down(self, slot: Future[None]) -> None:
        """Cancel all waiting executions when the threads are shut down: none will run them."""
        if slot.cancelled():
            with self._guard:
                waiting, self._waiting = self._waiting, []
            for _, answer in waiting:
                answer.cancel()

    def take(self, edit: tuple[str, ...], *, new: bool = False) -> WarmContainer:
        """A container for one execution, preferably one that has applied `edit` already; with
        `new`, one that is started now.

        Raises:
            SandboxUnavailable: a new one could not be started.
        """
        with self._guard:
            self._tried_edits.add(edit)
            idle = [] if new else self._idle
            known = [container for container in idle if edit in container.edits]
            for container in known or idle:
                self._idle.remove(container)
                container.edits.add(edit)
                LEVELS.change(Level.IDLE_CONTAINERS, -1)
                LEVELS.change(Level.BUSY_CONTAINERS, 1)
                return container
        container = self._open_container()
        LEVELS.change(Level.BUSY_CONTAINERS, 1)
        container.edits.add(edit)
        return container

    def give_back(self, container: WarmContainer) -> None:
        LEVELS.change(Level.BUSY_CONTAINERS, -1)
        LEVELS.change(Level.IDLE_CONTAINERS, 1)
        with self._guard:
            self._idle.append(container)

    def discard(self, container: WarmContainer) -> None:
        """Close one that was taken, rather than give it back."""
        LEVELS.change(Level.BUSY_CONTAINERS, -1)
        container.close()

    def _cost(self, edit: tuple[str, ...]) -> int:
        """0: nothing to apply; 1: an edit that is new; 2: one that would be applied once more."""
        if not edit or any(edit in container.edits for container in self._idle):
            return 0
        return 2 if edit in self._tried_edits else 1

    def close(self) -> None:
        """Close the idle containers; a running execution closes its own."""
        with self._guard:
            idle, self._idle = self._idle, []
        LEVELS.change(Level.IDLE_CONTAINERS, -len(idle))
        if idle:
            with ThreadPoolExecutor(len(idle)) as pool:
                for container in idle:
                    pool.submit(container.close)


class WarmExecution:
    """One job in a warm container. `stop` may be called from another thread."""

    def __init__(self, warm_pool: WarmPool, job: Job, *, limits: Limits) -> None:
        self.edit = tuple(job.diffs)
        self._warm_pool = warm_pool
        self._job = job
        self._limits = limits
        self._guard = threading.Lock()
        self._stopped_at: float | None = None
        self._current: tuple[WarmContainer, str] | None = None

    def stop(self) -> None:
        """Make `run` kill the execution and raise `Stopped` at once; the container stays."""
        with self._guard:
            self._stopped_at = time.monotonic()
            if self._current is None:
                return
            container, run = self._current
        try:
            container.send({"stop": run})
        except WarmContainerDied:
            return  # `run` notices it too

    def run(self) -> Execution:
        """Raises `PatchRejected`, `SandboxUnavailable`, and `Stopped` after `stop`."""
        answer = self._run_with_retry()
        if answer["end"] == Ending.EXIT and answer["code"] and CROSS_DEVICE in answer["output"]:
            whole = self._run_with_retry(copy_all=True)
            answer = whole if whole["end"] != "failed" else answer
        return to_execution(answer)

    def _run_with_retry(self, *, copy_all: bool = False) -> dict[str, Any]:
        try:
            return self._run_once(copy_all=copy_all)
        except WarmContainerDied:
            # Nothing of an execution outlives its container: repeating it has no other effect. What
            # killed this one may have killed the idle ones as well.
            try:
                return self._run_once(copy_all=copy_all, new=True)
            except WarmContainerDied as error:
                raise NoWarmContainer(f"The sandbox container died twice: {error}") from error

    def _run_once(self, *, copy_all: bool, new: bool = False) -> dict[str, Any]:
        if self._stopped_at is not None:
            raise Stopped
        container = self._warm_pool.take(self.edit, new=new)
        run = secrets.token_hex(8)
        with self._guard:
            is_stopped = self._stopped_at is not None
            if not is_stopped:
                self._current = container, run
        if is_stopped:  # while the container was opened: `stop` could not tell it
            self._warm_pool.give_back(container)
            raise Stopped
        try:
            answer = container.run_job(
                self._job_message(run, copy_all=copy_all),
                seconds=self._limits.wall_seconds + self._build_seconds() + GRACE_SECONDS,
                stopped=self._is_stop_overdue,
                report=self._job.watch.report if self._job.watch else None,
            )
        except BaseException as error:
            self._warm_pool.discard(container)
            if self._stopped_at is not None:
                raise Stopped from error
            raise
        finally:
            with self._guard:
                self._current = None
        self._warm_pool.give_back(container)
        if self._stopped_at is not None:
            raise Stopped
        return answer

    def _job_message(self, run: str, *, copy_all: bool) -> dict[str, Any]:
        return {
            **self._job.to_message(),
            "run": run,
            "whole": copy_all,
            "argv": list(self._job.steps[0]),
            "edit": edit_name(self._job.diffs),
            "mark": self._job.watch.mark if self._job.watch else "",
            "seconds": self._limits.seconds,
            "output_kept": self._limits.output_kept_bytes,
            "output_total": self._limits.output_total_bytes,
        }

    def _build_seconds(self) -> float:
        """How long a build before the program may take on a busy host."""
        return Limits(seconds=BUILD_SECONDS).wall_seconds if self._job.build_argv else 0.0

    def _is_stop_overdue(self) -> bool:
        stopped = self._stopped_at
        return stopped is not None and time.monotonic() - stopped > STOP_SECONDS


def to_execution(answer: Mapping[str, Any]) -> Execution:
    """The execution that process 1 reports.

    Raises:
        PatchRejected, SandboxUnavailable, Stopped: there was no execution.
    """
    end = str(answer["end"])
    if end == "rejected":
        raise PatchRejected(str(answer["words"]))
    if end == "stopped":
        raise Stopped
    if end not in set(Ending):
        raise NoWarmContainer(f"The execution could not be started: {answer['words']}")
    ending = Ending(end)
    execution = Execution(
        exit_code=int(answer["code"]) if ending == Ending.EXIT else None,
        output=str(answer["output"]),
        seconds=round(float(answer["seconds"]), 3),
        ending=ending,
        limit=str(answer.get("limit", "")),
        cpu_seconds=round(float(answer["cpu_seconds"]), 3),
        peak_memory_mb=round(int(answer["peak_kb"]) / 1024, 1),
    )
    return with_changes(execution, answer)


def edit_name(diffs: Sequence[str]) -> str:
    """A name by which a container recognises an edit; empty for no edit."""
    if not any(diff.strip() for diff in diffs):
        return ""
    digest = hashlib.sha256()
    for diff in diffs:
        data = diff.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


class ExecutionMode:
    """Whether executions run in warm containers or in one container each: tried once."""

    def __init__(self, mode: ConfiguredMode) -> None:
        self.cold_reason = "the settings ask for it" if mode == "cold" else None
        """Why each execution gets a container of its own; empty: none does; None: not tried."""
        self.probing = threading.Lock()
        self._configured = mode

    async def is_warm(self, pool: ThreadPoolExecutor, warm_pool: WarmPool) -> bool:
        """Raises `SandboxUnavailable` if Docker fails or the host lacks required support."""
        if self.cold_reason is None:
            await run_stoppable(pool, Probe(self, warm_pool))
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
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._execution.stop()

    def run(self) -> None:
        """Raises `SandboxUnavailable`, and `Stopped` after `stop`."""
        while not self._mode.probing.acquire(timeout=0.2):
            if self._stopped:
                raise Stopped
        try:
            if self._mode.cold_reason is None:  # else another thread was faster
                self._mode.cold_reason = probe_problem(self._execution.run())
        except (PatchRejected, NoWarmContainer) as error:
            self._mode.cold_reason = str(error)
        finally:
            self._mode.probing.release()


def probe_problem(found: Execution) -> str:
    if found.passed and found.output == "isolated\n":
        return ""
    last = found.output.strip().splitlines()[-1:] or [f"it ended by {found.ending}"]
    return f"The probe failed: {last[0][:200]}"
