"""One execution in a container of its own, from its creation to its removal. Blocking."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, cast

import docker
from docker.errors import DockerException, ImageNotFound, NotFound

from sandbox.base import Ending, Execution
from sandbox.docker.client import translate_docker_errors
from sandbox.docker.cold_protocol import ColdProtocol, ProtocolError
from sandbox.docker.container import GVISOR, Runtime, create_cold_container
from sandbox.errors import SandboxUnavailable
from sandbox.execution.cancellation import Stopped
from sandbox.execution.captured import with_changes
from sandbox.execution.job import Job
from sandbox.execution.stream import DeadlinePassed
from sandbox.frozen import replace
from sandbox.limits import Limits
from sandbox.output import Output

log = logging.getLogger(__name__)

SIGKILL_EXIT_CODE = 137
"""Exit code of a container whose process 1 got SIGKILL."""
END_SECONDS = 30
"""How long a container whose output has ended may take to be gone."""
OOM_EVENT_SECONDS = 1
"""How long after a container's end Docker may still report that its memory was exhausted: under
load, gVisor's was seen 0.05 seconds later."""


class ContainerKilled(Exception):
    """Under gVisor a container was killed from outside, or by the program, which can do that."""


class ColdExecution:
    """One job in one container of `image`. `stop` may be called from another thread."""

    def __init__(
        self,
        client: docker.APIClient,
        image: str,
        job: Job,
        *,
        limits: Limits,
        runtime: Runtime,
        labels: Mapping[str, str],
    ) -> None:
        self._client = client
        self._image = image
        self._job = job
        self._limits = limits
        self._runtime = runtime
        self._labels = labels
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
            self._client,
            output=Output(self._limits.output_kept_bytes),
            max_output=self._limits.output_total_bytes,
        )

    def _run_once(self) -> Execution:
        if self._stop.is_set():
            raise Stopped
        with translate_docker_errors("The sandbox container failed"):
            container = self._create()
            try:
                return self._execute(container)
            finally:
                remove_container(self._client, container)

    def _create(self) -> str:
        try:
            return create_cold_container(
                self._client,
                self._image,
                limits=self._limits,
                runtime=self._runtime,
                labels=self._labels,
            )
        except ImageNotFound as error:
            raise SandboxUnavailable(
                f"The environment image {self._image} is gone; prepare it again."
            ) from error

    def _execute(self, container: str) -> Execution:
        protocol = self._protocol
        try:
            protocol.run_job(
                container,
                self._job,
                seconds=self._limits.wall_seconds + END_SECONDS,
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
        return self._to_execution(wait_for_final_state(self._client, container, reported=reported))

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
        return self._runtime.name == GVISOR and self._protocol.ready_at is not None

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
    until = datetime.fromisoformat(finished_at) + timedelta(seconds=OOM_EVENT_SECONDS)
    events = cast(Any, client).events(
        since=0,
        until=f"{until.timestamp():.3f}",
        filters={"container": container, "event": "oom"},
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
