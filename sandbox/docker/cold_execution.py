"""One execution, from the creation of its container to its removal. Blocking: runs in a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, cast

import docker
from docker.errors import DockerException, ImageNotFound, NotFound

from sandbox.base import Ending, Execution, SandboxUnavailable
from sandbox.docker.client import docker_errors
from sandbox.docker.cold_protocol import Dialogue, Garbled
from sandbox.docker.container import GVISOR, Runtime, create_execution
from sandbox.execution.cancellation import Stopped
from sandbox.execution.job import Job
from sandbox.execution.stream import Late
from sandbox.limits import Limits
from sandbox.output import Output

log = logging.getLogger(__name__)

KILLED = 137
"""Exit code of a container whose process 1 got SIGKILL."""
END_SECONDS = 30
"""How long a container whose output has ended may take to be gone."""


class KilledWhole(Exception):
    """Under gVisor a container was killed, from outside or by what ran in it: it can do that."""


class Attempt:
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
        self._dialogue = self._new_dialogue()

    def stop(self) -> None:
        """Make `run` kill the container and raise `Stopped` within a fraction of a second."""
        self._stop.set()

    def run(self) -> Execution:
        """Raises `PatchRejected`, `SandboxUnavailable`, and `Stopped` after `stop`."""
        try:
            return self._once()
        except KilledWhole:
            # From outside, which will not happen again, or by what runs, which will.
            self._dialogue = self._new_dialogue()
            try:
                return self._once()
            except KilledWhole:
                return self._cut_off(Ending.KILLED)

    def _new_dialogue(self) -> Dialogue:
        return Dialogue(
            self._client,
            output=Output(self._limits.output_kept_bytes),
            most_output=self._limits.output_total_bytes,
        )

    def _once(self) -> Execution:
        if self._stop.is_set():
            raise Stopped
        with docker_errors("The sandbox container failed"):
            container = self._create()
            try:
                return self._execute(container)
            finally:
                remove(self._client, container)

    def _create(self) -> str:
        try:
            return create_execution(
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
        dialogue = self._dialogue
        try:
            dialogue.hold(container, self._job, seconds=self._limits.seconds, stop=self._stop)
        except Late:
            return self._cut_off(Ending.TIMEOUT)
        except Garbled:
            if self._is_in_reach():
                return self._cut_off(Ending.KILLED)
            raise
        if dialogue.output.total > self._limits.output_total_bytes:
            return self._cut_off(Ending.OUTPUT)
        return self._judge(ended_state(self._client, container))

    def _judge(self, state: dict[str, Any]) -> Execution:
        """How a container ended that ended by itself; its state counts, never what it printed."""
        end = self._dialogue.end
        if state.get("OOMKilled") or (end and end["oom"]):
            if self._dialogue.ready_at is None:
                raise SandboxUnavailable("The checkout does not fit into the memory limit.")
            return self._cut_off(Ending.MEMORY)
        if end is None:
            code = state.get("ExitCode")
            if self._is_in_reach():
                if code == KILLED:
                    raise KilledWhole
                return self._cut_off(Ending.KILLED)
            raise SandboxUnavailable(
                f"The sandbox container ended without a word (exit code {code})."
            )
        if "signal" in end:
            return self._cut_off(Ending.KILLED)
        if end["exit"] != state.get("ExitCode"):
            raise SandboxUnavailable("The container and its process 1 tell different exit codes.")
        return Execution(
            exit_code=end["exit"],
            output=self._dialogue.output.text(),
            seconds=round(end["seconds"], 3),
            cpu_seconds=round(end["cpu_seconds"], 3),
            peak_memory_mb=round(end["peak_kb"] / 1024, 1),
        )

    def _is_in_reach(self) -> bool:
        """Whether what runs can bring its whole container down: under gVisor it may send signals to
        process 1, write on its line to us, and exhaust the kernel in the container."""
        return self._runtime.name == GVISOR and self._dialogue.ready_at is not None

    def _cut_off(self, ending: Ending) -> Execution:
        return Execution(
            exit_code=None,
            output=self._dialogue.output.text(),
            seconds=round(self._dialogue.seconds(), 3),
            ending=ending,
        )


def ended_state(client: docker.APIClient, container: str) -> dict[str, Any]:
    """The state of a container whose output has ended, as soon as it is final."""
    client.wait(container, timeout=END_SECONDS)
    seen = cast(dict[str, Any], client.inspect_container(container))
    return seen["State"]


def remove(client: docker.APIClient, container: str) -> None:
    """Kill and remove; what cannot be removed now is left to the reaper, by its label."""
    try:
        client.remove_container(container, force=True, v=True)
    except NotFound:
        return
    except (DockerException, OSError) as error:
        log.warning("container %s was not removed: %s", container[:12], error)
