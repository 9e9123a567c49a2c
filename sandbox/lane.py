"""One lane: a warm container whose process 1 runs one execution after another. Blocking."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from sandbox.attach import STDOUT, Attached, Late
from sandbox.base import SandboxUnavailable
from sandbox.container import CHECKOUT, INODES, OPEN_FILES, TREE, create_lane
from sandbox.daemon import cause, docker_errors
from sandbox.limits import Limits

log = logging.getLogger(__name__)

SEND_SECONDS = 60
MOST_ANSWER_BYTES = 256 * 1024 * 1024
WORDS_KEPT = 2000
GONE_SECONDS = 30


class LaneDied(Exception):
    """The container or the way to it is gone; what it last said, if anything."""


class NoLane(SandboxUnavailable):
    """Docker is well, but what a lane needs is not there; one container an execution may do."""


class Lane:
    """Made by `open_lane`. One thread runs jobs on it; any may call `stop`."""

    def __init__(self, client: docker.APIClient, container: str, attached: Attached) -> None:
        self.container = container
        self.edits: set[tuple[str, ...]] = set()
        """What it was asked to apply before, and so has at hand."""
        self._client = client
        self._attached = attached
        self._sending = threading.Lock()
        self._received = bytearray()
        self._said = b""

    def send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message).encode()
        try:
            with self._sending:
                self._attached.send(len(data).to_bytes(4, "big") + data, seconds=SEND_SECONDS)
        except (OSError, ValueError) as error:
            raise LaneDied(str(error)) from error

    def ask(
        self, job: Mapping[str, Any], *, seconds: float, stopped: Callable[[], bool]
    ) -> dict[str, Any]:
        """The answer to a job.

        Raises:
            LaneDied: none came within `seconds`, or before `stopped` said so.
        """
        self.send(job)
        deadline = time.monotonic() + seconds
        while True:
            answer = self._receive(deadline, stopped)
            if answer.get("run") == job["run"]:
                return answer

    def close(self) -> None:
        """Kill the container with all that runs in it, and wait until it is gone."""
        try:
            self._attached.__exit__(None, None, None)
            self._client.remove_container(self.container, force=True, v=True)
        except NotFound:
            return
        except (DockerException, OSError) as error:
            # It removes itself as well: the second to come is told so.
            if "already in progress" not in str(error):
                log.warning("lane %s was not removed: %s", self.container[:12], error)
                return
        self._until_gone()

    def _until_gone(self) -> None:
        deadline = time.monotonic() + GONE_SECONDS
        try:
            while time.monotonic() < deadline:
                self._client.inspect_container(self.container)
                time.sleep(0.005)
        except (DockerException, OSError):
            return

    def _receive(self, deadline: float, stopped: Callable[[], bool]) -> dict[str, Any]:
        """The next whole message."""
        while True:
            size = 4 + int.from_bytes(self._received[:4], "big")
            if size > MOST_ANSWER_BYTES:
                raise LaneDied("It said far too much.")
            if len(self._received) >= max(size, 4):
                message = bytes(self._received[4:size])
                del self._received[:size]
                return cast(dict[str, Any], json.loads(message))
            self._take(deadline, stopped)

    def _take(self, deadline: float, stopped: Callable[[], bool]) -> None:
        try:
            frame = self._attached.read(deadline=deadline, stopped=stopped)
        except Late:
            raise LaneDied("It did not answer.") from None
        except (OSError, ValueError) as error:
            raise LaneDied(str(error)) from error
        if frame is None:
            raise LaneDied(self._said.decode("utf-8", "replace").strip() or "It ended.")
        if frame[0] == STDOUT:
            self._received += frame[1]
        else:
            self._said = (self._said + frame[1])[-WORDS_KEPT:]


def open_lane(
    client: docker.APIClient, image: str, *, limits: Limits, profile: str, labels: Mapping[str, str]
) -> Lane:
    """Raises `SandboxUnavailable` if Docker does not start it."""
    with docker_errors("The sandbox container failed"):
        try:
            container = create_lane(client, image, limits=limits, profile=profile, labels=labels)
        except ImageNotFound as error:
            raise SandboxUnavailable(
                f"The environment image {image} is gone; prepare it again."
            ) from error
        lane = None
        try:
            lane = Lane(client, container, Attached(client, container))
            client.start(container)
            lane.send(walls(limits))
        except (DockerException, OSError, LaneDied) as error:
            if lane is not None:
                lane.close()
            else:
                client.remove_container(container, force=True, v=True)
            if isinstance(error, APIError):
                raise NoLane(f"The container of a lane did not start: {cause(error)}") from error
            raise SandboxUnavailable(f"The sandbox container did not start: {error}") from error
        return lane


def walls(limits: Limits) -> dict[str, Any]:
    """What process 1 of a lane has to know before its first job."""
    return {
        "checkout": CHECKOUT,
        "tree": TREE,
        "disk_mb": limits.disk_mb,
        "inodes": INODES,
        "processes": limits.processes,
        "open_files": OPEN_FILES,
    }
