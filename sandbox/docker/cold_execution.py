"""One execution in a container of its own."""

import json
import logging
import secrets
import threading
import time
from datetime import datetime, timedelta
from typing import Any, cast

import docker
from docker.errors import DockerException, NotFound

from sandbox.docker.container import GVISOR, AttachedStream, Daemon, create_cold_container
from sandbox.docker.docker_client import translate_docker_errors
from sandbox.errors import PatchRejected, SandboxUnavailable
from sandbox.execution.cancellation import Stopped
from sandbox.execution.jobs import STDERR, DeadlinePassed, Job, with_changes
from sandbox.frozen import replace
from sandbox.output import MarkedLines, Output
from sandbox.program import BUILD_SECONDS, Ending, Execution, Limits

log = logging.getLogger(__name__)

READY_SECONDS = 120
"""Longest time for the copy of the tree and the diffs, before the program's own clock starts."""
STATUS_BYTES = 256 * 1024
"""How much process 1 may write; where it captures the changes of the program, it may write more."""
SIGKILL_EXIT_CODE = 137
"""Exit code of a container whose process 1 got SIGKILL."""
END_SECONDS = 30
"""How long a container whose output has ended may take to be gone."""


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
        self._status_limit = STATUS_BYTES + (4 * 1024 * 1024 if job.capture else 0)
        watch = job.watch
        marked = MarkedLines(watch.mark) if watch else None
        with AttachedStream(self._client, container) as attached:
            self._client.start(container)
            attached.send(job.to_line(self._nonce, cpu_seconds), seconds=60)
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


class ContainerKilled(Exception):
    """Under gVisor a container was killed from outside, or by the program, which can do that."""


class ColdExecution:
    """One job in one container of `image`. `stop` may be called from another thread."""

    def __init__(self, daemon: Daemon, image: str, job: Job, *, limits: Limits) -> None:
        self._daemon = daemon
        self._image = image
        self._job = job
        self._limits = limits
        self._stop = threading.Event()
        self._protocol = self._new_protocol()

    def stop(self) -> None:
        """Make `run` kill the container and raise `Stopped` within a fraction of a second."""
        self._stop.set()

    def run(self) -> Execution:
        """Raises `PatchRejected`, `SandboxUnavailable`, and `Stopped` after `stop`."""
        try:
            return self._run_once()
        except ContainerKilled:
            # A kill from outside will not happen again; one by the program will.
            self._protocol = self._new_protocol()
            try:
                return self._run_once()
            except ContainerKilled:
                return self._partial_execution(Ending.KILLED)

    def _new_protocol(self) -> ColdProtocol:
        return ColdProtocol(
            self._daemon.client,
            output=Output(self._limits.output_kept_bytes),
            max_output=self._limits.output_total_bytes,
        )

    def _run_once(self) -> Execution:
        if self._stop.is_set():
            raise Stopped
        with translate_docker_errors("The sandbox container failed"):
            container = create_cold_container(self._daemon, self._image, limits=self._limits)
            try:
                return self._execute(container)
            finally:
                remove_container(self._daemon.client, container)

    def _execute(self, container: str) -> Execution:
        protocol = self._protocol
        build = Limits(seconds=BUILD_SECONDS).wall_seconds if self._job.build_argv else 0
        try:
            protocol.run_job(
                container,
                self._job,
                seconds=self._limits.wall_seconds + build + END_SECONDS,
                stop=self._stop,
                cpu_seconds=self._limits.seconds,
            )
        except DeadlinePassed:
            return self._partial_execution(Ending.TIMEOUT)
        except ProtocolError:
            if self._can_kill_container():
                return self._partial_execution(Ending.KILLED)
            raise
        if protocol.output.total > self._limits.output_total_bytes:
            return self._partial_execution(Ending.OUTPUT)
        reported = protocol.end is not None
        state = wait_for_final_state(self._daemon.client, container, reported=reported)
        return self._to_execution(state)

    def _to_execution(self, state: dict[str, Any]) -> Execution:
        """The end of a container that ended by itself, by its state and never by its output."""
        end = self._protocol.end
        if state.get("OOMKilled") or (end and end["oom"]):
            if self._protocol.ready_at is None:
                raise SandboxUnavailable("The checkout does not fit into the memory limit.")
            return self._partial_execution(Ending.MEMORY)
        if end is None:
            code = state.get("ExitCode")
            if self._can_kill_container():
                if code == SIGKILL_EXIT_CODE:
                    raise ContainerKilled
                return self._partial_execution(Ending.KILLED)
            raise SandboxUnavailable(
                f"The sandbox container ended without a report (exit code {code})."
            )
        if "unbuilt" in end:
            unbuilt = self._partial_execution(Ending.UNBUILT)
            return replace(unbuilt, limit=str(end["limit"]), seconds=round(end["seconds"], 3))
        if "signal" in end:
            limit = str(end.get("limit", ""))
            ended = self._partial_execution(Ending.TIMEOUT if limit else Ending.KILLED)
            used = {name: round(end[name], 3) for name in ("seconds", "cpu_seconds")}
            return replace(ended, limit=limit, **used)
        if end["exit"] != state.get("ExitCode"):
            raise SandboxUnavailable("The container and its process 1 report different exit codes.")
        execution = Execution(
            exit_code=end["exit"],
            output=self._protocol.output.text(),
            seconds=round(end["seconds"], 3),
            cpu_seconds=round(end["cpu_seconds"], 3),
            peak_memory_mb=round(end["peak_kb"] / 1024, 1),
        )
        return with_changes(execution, self._protocol.captured)

    def _can_kill_container(self) -> bool:
        """Whether the program can end its whole container: under gVisor it can send signals to
        process 1, write to its standard error, and exhaust the container's kernel."""
        return self._daemon.runtime.name == GVISOR and self._protocol.ready_at is not None

    def _partial_execution(self, ending: Ending) -> Execution:
        return Execution(
            exit_code=None,
            output=self._protocol.output.text(),
            seconds=round(self._protocol.run_seconds(), 3),
            ending=ending,
        )


def wait_for_final_state(
    client: docker.APIClient, container: str, *, reported: bool
) -> dict[str, Any]:
    """The state of a container whose output has ended, as soon as it is final. `reported`: its
    process 1 said how it ended."""
    client.wait(container, timeout=END_SECONDS)
    seen = cast(dict[str, Any], client.inspect_container(container))
    state = seen["State"]
    if not reported and state["ExitCode"] == SIGKILL_EXIT_CODE and not state["OOMKilled"]:
        state["OOMKilled"] = _find_oom_event(client, container, state["FinishedAt"])
    return state


def _find_oom_event(client: docker.APIClient, container: str, finished_at: str) -> bool:
    """Whether the container, which ended at that time of the daemon's clock, was out of memory.

    Docker learns of both at once; where it hears of the end first, the state never says why.
    """
    # Under load, gVisor's event was seen 0.05 seconds after the end.
    until = datetime.fromisoformat(finished_at) + timedelta(seconds=1)
    events = cast(Any, client).events(
        since=0, until=f"{until.timestamp():.3f}", filters={"container": container, "event": "oom"}
    )
    hangs = threading.Timer(END_SECONDS, events.close)  # docker-py reads events without a limit
    hangs.start()
    try:
        return bool(list(events))
    finally:
        hangs.cancel()


def remove_container(client: docker.APIClient, container: str) -> None:
    """Kill and remove a container; the reaper removes later what cannot be removed now."""
    try:
        client.remove_container(container, force=True, v=True)
    except NotFound:
        return
    except (DockerException, OSError) as error:
        log.warning("Container %s was not removed: %s", container[:12], error)
