"""The protocol between the host and process 1 of a container that runs one job."""

from __future__ import annotations

import json
import secrets
import threading
import time
from typing import Any, cast

import docker

from sandbox.docker.attach import AttachedStream
from sandbox.errors import PatchRejected, SandboxUnavailable
from sandbox.execution.cancellation import Stopped
from sandbox.execution.job import Job
from sandbox.execution.stream import STDERR, DeadlinePassed
from sandbox.output import MarkedLines, Output

READY_SECONDS = 120
"""Longest time for the copy of the tree and the diffs, before the program's own clock starts."""
SEND_SECONDS = 60
STATUS_BYTES = 256 * 1024
CAPTURED_BYTES = 4 * 1024 * 1024
"""How much more process 1 may write where the changes of the program are captured."""


class ProtocolError(SandboxUnavailable):
    """Standard error of the container holds what process 1 would not write."""


class ColdProtocol:
    """One job in one container. Process 1 answers on standard error, which the job cannot reach."""

    def __init__(self, client: docker.APIClient, *, output: Output, max_output: int) -> None:
        self.output = output
        self.ready_at: float | None = None
        self.step = 0
        """Which of the job's steps ran last."""
        self.end: dict[str, Any] | None = None
        """The last report of process 1: `exit` or `signal`, `seconds`, `oom`, what was used."""
        self.captured: dict[str, Any] = {}
        """What the program changed, as `sandbox.guest.supervisor.capture` reports it."""
        self._client = client
        self._status_limit = STATUS_BYTES
        self._max_output = max_output
        self._nonce = secrets.token_hex(16)
        self._partial = b""
        self._status_bytes = 0

    def run_job(
        self,
        container: str,
        job: Job,
        *,
        seconds: float,
        stop: threading.Event,
        cpu_seconds: float | None = None,
    ) -> None:
        """Start the container, send the job and read until it ends or prints too much.

        Raises:
            DeadlinePassed: the job took longer than `seconds` of wall time. The end of one that
                met its limit of `cpu_seconds` names that `limit`.
            Stopped: `stop` was set.
            PatchRejected, SandboxUnavailable: the checkout could not be made.
            ProtocolError: something other than process 1 wrote to its stream, or it failed.
        """
        self._status_limit = STATUS_BYTES + (CAPTURED_BYTES if job.capture else 0)
        watch = job.watch
        marked = MarkedLines(watch.mark) if watch else None
        with AttachedStream(self._client, container) as attached:
            self._client.start(container)
            attached.send(job.to_line(self._nonce, cpu_seconds), seconds=SEND_SECONDS)
            deadline = time.monotonic() + READY_SECONDS
            try:
                while self.output.total <= self._max_output:
                    frame = attached.read(deadline=deadline, stopped=stop.is_set)
                    if frame is None:
                        return
                    if frame[0] == STDERR:
                        self._receive_status(frame[1])
                        deadline = self.ready_at + seconds if self.ready_at else deadline
                    else:
                        self.output.add(frame[1])
                        if watch and marked and (line := marked.find_latest(frame[1])):
                            watch.report(line)
            except DeadlinePassed:
                if stop.is_set():
                    raise Stopped from None
                if self.ready_at is None:
                    raise SandboxUnavailable(
                        f"The checkout was not ready after {READY_SECONDS} seconds."
                    ) from None
                raise

    def run_seconds(self) -> float:
        """How long the job has been running, measured on the host."""
        return time.monotonic() - self.ready_at if self.ready_at else 0.0

    def _receive_status(self, data: bytes) -> None:
        self._status_bytes += len(data)
        if self._status_bytes > self._status_limit:
            raise ProtocolError("Process 1 of the container wrote too much.")
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._handle_status(line)

    def _handle_status(self, line: bytes) -> None:
        fields = parse_object(line)
        if fields.get("nonce") != self._nonce:
            raise ProtocolError(f"Process 1 of the container failed: {line[-300:]!r}")
        if "rejected" in fields:
            raise PatchRejected(str(fields["rejected"]))
        if "failed" in fields:
            raise SandboxUnavailable(str(fields["failed"]))
        if "ready" in fields:
            self.ready_at = time.monotonic()
        elif "captured" in fields:
            self.captured = fields["captured"]
        elif "step" in fields:
            self.step = int(fields["step"])
        else:
            self.end = fields


def parse_object(line: bytes) -> dict[str, Any]:
    try:
        value: Any = json.loads(line)
    except ValueError:
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
