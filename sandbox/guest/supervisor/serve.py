"""Process 1 of a warm container: takes one job after another from the host and answers each.

A message in either direction is 4 bytes of length (big-endian) and a JSON object. The host sends
the limits once, then jobs with a `run` id (each answered at its end) and, while one runs, `stop`
with its id. When standard input ends, the host is gone: process 1 exits, and the kernel kills all
that runs.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NoReturn

from sandbox.guest.supervisor import kernel
from sandbox.guest.supervisor.apply_edit import REJECTED
from sandbox.guest.supervisor.edit_layers import EditLayer, EditLayers, remove_layer
from sandbox.guest.supervisor.mounts import SCRATCH, CheckoutLayers
from sandbox.guest.supervisor.process import GuestLimits, ProcessJob, SandboxProcess, start_process
from sandbox.guest.supervisor.seccomp import filter_program
from sandbox.guest.supervisor.watch import (
    ExecutionLimits,
    ExecutionMonitor,
    ExecutionResult,
    GuestEnding,
    MarkedOutput,
    is_memory_short,
)

HOST_GONE: Final = 125
IDLE_SECONDS: Final = 0.005
CHUNK: Final = 64 * 1024
EDIT_LIMITS: Final = ExecutionLimits(seconds=60, output_kept=4000, output_total=1 << 20)


class Channel:
    """The connection to the host, over standard input and output."""

    def __init__(self) -> None:
        self._received = b""
        self._messages: deque[dict[str, Any]] = deque()
        self._stopped: set[str] = set()
        os.set_blocking(0, False)
        os.set_blocking(1, False)

    def receive(self, *, when_idle: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Wait for the next message; calls `when_idle` if it does not come soon."""
        while not self._messages:
            if not select.select([0], [], [], IDLE_SECONDS)[0]:
                when_idle()
                select.select([0], [], [])
            self.read_available()
        return self._messages.popleft()

    def read_available(self) -> None:
        """Read what can be read without waiting."""
        try:
            data = os.read(0, CHUNK)
        except BlockingIOError:
            return
        if not data:
            os._exit(HOST_GONE)
        self._received += data
        while len(self._received) >= 4:
            size = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < size:
                return
            message: dict[str, Any] = json.loads(self._received[4:size])
            self._received = self._received[size:]
            if "stop" in message:
                self._stopped.add(message["stop"])
            else:
                self._messages.append(message)

    def is_wanted(self, run: str) -> bool:
        """Whether the host still waits for `run`, after reading its latest messages."""
        self.read_available()
        return run not in self._stopped

    def mark_answered(self, run: str) -> None:
        """`run` has been answered."""
        self._stopped.discard(run)

    def send(self, **fields: object) -> None:
        """Send a message; never waits for a host that is gone."""
        data = json.dumps(fields).encode()
        left = memoryview(len(data).to_bytes(4, "big") + data)
        while left:
            try:
                left = left[os.write(1, left) :]
            except BlockingIOError:
                readable, _, _ = select.select([0], [1], [])
                if readable:
                    self.read_available()


class Supervisor:
    """Runs the jobs of the host, one at a time."""

    def __init__(self, channel: Channel, settings: dict[str, Any]) -> None:
        self._channel = channel
        self._tree = str(settings["tree"])
        self._limits = GuestLimits(
            checkout=settings["checkout"],
            disk=f"size={settings['disk_mb']}m,nr_inodes={settings['inodes']}",
            processes=settings["processes"],
            open_files=settings["open_files"],
            # Twice the disk, so that a full disk is reported as one; it stops only sparse files.
            file_bytes=settings["disk_mb"] << 21,
            filter=filter_program(kernel.MACHINE),
        )
        os.mkdir(SCRATCH, 0o700)  # noqa: PTH102
        self._edit_layers = EditLayers()
        self._previous: ExecutionMonitor | None = None
        """The previous execution: answered, while the kernel may still free its resources."""
        self._next: SandboxProcess | None = None
        """Started while the previous one is in use: the setup takes longer than the start."""

    def start_next(self) -> None:
        self._next = start_process(self._limits)

    def run(self, job: dict[str, Any]) -> None:
        run = str(job["run"])
        if not self._channel.is_wanted(run):
            self._channel.send(run=run, end=GuestEnding.STOPPED)
            return
        layers = [self._tree]
        if job["edit"]:
            layer = self._edit_layers.find(job["edit"]) or self._make_edit(run, job)
            if layer is None:
                return
            if job["build"] and not layer.is_built:
                self._build_edit(run, job, layer)
            unbuilt = layer.unbuilt if job["build"] else {}
            if unbuilt or not self._channel.is_wanted(run):
                self._channel.send(run=run, **(unbuilt or {"end": GuestEnding.STOPPED}))
                return
            layers.insert(0, layer.upper)
        limits = ExecutionLimits(
            job["seconds"], job["output_kept"], job["output_total"], may_wait=job["may_wait"]
        )
        below = CheckoutLayers(layers, copy_all=bool(job["whole"]))
        asked = ProcessJob(
            below,
            argv=job["argv"],
            env=job["env"],
            files=job["files"],
            capture=self._tree if job["capture"] else "",
            outputs=job["outputs"],
        )
        watch = MarkedOutput(
            job.get("mark", ""), lambda line: self._channel.send(progress=run, line=line)
        )
        result = self._run_job(run, asked, limits, watch)
        self._channel.send(
            run=run,
            end=result.end,
            words=result.message,
            code=result.code,
            limit=result.limit,
            output=result.output.text(),
            seconds=result.seconds,
            cpu_seconds=result.cpu_seconds,
            peak_kb=result.peak_kb,
            **result.captured,
        )

    def _make_edit(self, run: str, job: dict[str, Any]) -> EditLayer | None:
        """A new edit; None after reporting to the host why it could not be made."""
        self.finish_previous()
        layer = self._edit_layers.create()
        making = ProcessJob(CheckoutLayers([self._tree], upper=layer.folder), diffs=job["diffs"])
        result = self._run_job(run, making, EDIT_LIMITS)
        self.finish_previous()
        if result.code == 0:
            self._edit_layers.store(job["edit"], layer)
            return layer
        remove_layer(layer)
        words = result.output.text().strip()
        if result.end is GuestEnding.STOPPED:
            self._channel.send(run=run, end=GuestEnding.STOPPED)
        elif result.code == REJECTED:
            self._channel.send(run=run, end="rejected", words=words)
        else:
            why = result.message or f"The edit could not be made ({result.end}). {words}"
            self._channel.send(run=run, end=GuestEnding.FAILED, words=why)
        return None

    def _build_edit(self, run: str, job: dict[str, Any], layer: EditLayer) -> None:
        """Build the code with an edit, once, into its layer; `layer.unbuilt` tells a failure."""
        self.finish_previous()
        layers = CheckoutLayers([self._tree], upper=layer.folder)
        building = ProcessJob(layers, argv=job["build"], env=job["env"])
        limits = ExecutionLimits(job["build_seconds"], job["output_kept"], job["output_total"])
        result = self._run_job(run, building, limits)
        self.finish_previous()
        if result.end is GuestEnding.STOPPED:
            return
        layer.is_built = True
        if result.code != 0:
            layer.unbuilt = {
                "end": GuestEnding.UNBUILT,
                "output": result.output.text() + explain_end(result, job["build_seconds"]),
                "limit": result.limit,
                "seconds": result.seconds,
                "cpu_seconds": result.cpu_seconds,
                "peak_kb": result.peak_kb,
            }

    def _run_job(
        self, run: str, job: ProcessJob, limits: ExecutionLimits, watch: MarkedOutput | None = None
    ) -> ExecutionResult:
        process = self._assign_process(job)
        before = self._previous
        self._previous = ExecutionMonitor(
            process, limits, control=0, is_wanted=lambda: self._channel.is_wanted(run), watch=watch
        )
        self.start_next()
        if before is not None:
            before.wait_until_gone()
        result = self._previous.wait_for_result()
        if result.end is not GuestEnding.EXIT or is_memory_short():
            self.finish_previous()
        return result

    def finish_previous(self) -> None:
        """Wait until the kernel has freed the previous execution, which has ended."""
        if self._previous is not None:
            left, self._previous = self._previous, None
            left.wait_until_gone()

    def _assign_process(self, job: ProcessJob) -> SandboxProcess:
        waiting, self._next = self._next, None
        if waiting is not None:
            try:
                waiting.send_job(job)
            except OSError:  # out of memory, it was the first to go
                waiting.kill()
                waiting.close()
            else:
                return waiting
        process = start_process(self._limits)
        process.send_job(job)
        return process


def explain_end(result: ExecutionResult, seconds: float) -> str:
    """Why a build did not end by itself, on a line of its own; empty for one that did."""
    reasons = {
        GuestEnding.TIMEOUT: f"did not end within {seconds:.0f} seconds of processor time",
        GuestEnding.MEMORY: "used too much memory",
        GuestEnding.OUTPUT: "printed too much",
        GuestEnding.KILLED: "was killed by a signal",
    }
    why = reasons.get(result.end, result.message)
    return f"\n[The build was stopped: it {why}.]\n" if result.end in reasons else f"\n{why}"


def main() -> NoReturn:
    # Process 1 of a namespace ignores every signal that has no handler; Python sets this one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    kernel.set_dumpable(on=False)
    channel = Channel()
    supervisor = Supervisor(channel, channel.receive())
    gc.freeze()
    supervisor.start_next()
    while True:
        job = channel.receive(when_idle=supervisor.finish_previous)
        try:
            supervisor.run(job)
        except OSError as error:
            channel.send(run=job["run"], end=GuestEnding.FAILED, words=str(error))
        channel.mark_answered(job["run"])
