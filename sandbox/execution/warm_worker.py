"""A warm container or pod, whose process 1 runs one execution after another. Blocking."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from sandbox.errors import SandboxUnavailable
from sandbox.execution.jobs import STDOUT, DeadlinePassed, Stream
from sandbox.layout import CHECKOUT, TREE
from sandbox.program import INODES, OPEN_FILES, Limits


class WarmContainerDied(Exception):
    """The container or the connection to it is lost; the message is what it printed last."""


class NoWarmContainer(SandboxUnavailable):
    """Docker works but cannot start a warm container; one container for each execution may work."""


class WarmContainer:
    """A warm container or pod. One thread runs jobs on it; any may call `stop`."""

    def __init__(self, stream: Stream, *, remove: Callable[[], None]) -> None:
        """`remove` kills the container and waits until it is gone."""
        self.edits: set[tuple[str, ...]] = set()
        """The edits that it has been asked to apply."""
        self.close = remove
        self._stream = stream
        self._sending = threading.Lock()
        self._received = bytearray()
        self._stderr_tail = b""

    def send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message).encode()
        try:
            with self._sending:
                self._stream.send(len(data).to_bytes(4, "big") + data, seconds=60)
        except (OSError, ValueError) as error:
            raise WarmContainerDied(str(error)) from error

    def run_job(
        self,
        job: Mapping[str, Any],
        *,
        seconds: float,
        stopped: Callable[[], bool],
        report: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        """The answer to a job; `report` receives the marked lines before.

        Raises:
            WarmContainerDied: no answer came within `seconds`, or before `stopped()` was true.
        """
        self.send(job)
        deadline = time.monotonic() + seconds
        while True:
            answer = self._receive_message(deadline, stopped)
            if answer.get("run") == job["run"]:
                return answer
            if report is not None and answer.get("progress") == job["run"]:
                report(str(answer.get("line", "")))

    def _receive_message(self, deadline: float, stopped: Callable[[], bool]) -> dict[str, Any]:
        """The next whole message."""
        while True:
            size = 4 + int.from_bytes(self._received[:4], "big")
            if size > 256 * 1024 * 1024:
                raise WarmContainerDied("Its answer is too long.")
            if len(self._received) >= max(size, 4):
                message = bytes(self._received[4:size])
                del self._received[:size]
                return cast(dict[str, Any], json.loads(message))
            self._receive_frame(deadline, stopped)

    def _receive_frame(self, deadline: float, stopped: Callable[[], bool]) -> None:
        try:
            frame = self._stream.read(deadline=deadline, stopped=stopped)
        except DeadlinePassed:
            raise WarmContainerDied("It did not answer.") from None
        except (OSError, ValueError) as error:
            raise WarmContainerDied(str(error)) from error
        if frame is None:
            raise WarmContainerDied(
                self._stderr_tail.decode("utf-8", "replace").strip() or "It ended."
            )
        if frame[0] == STDOUT:
            self._received += frame[1]
        else:
            self._stderr_tail = (self._stderr_tail + frame[1])[-2000:]


def limits_message(limits: Limits) -> dict[str, Any]:
    """The message that process 1 of a warm container needs before its first job."""
    return {
        "checkout": CHECKOUT,
        "tree": TREE,
        "disk_mb": limits.disk_mb,
        "inodes": INODES,
        "processes": limits.processes,
        "open_files": OPEN_FILES,
    }
