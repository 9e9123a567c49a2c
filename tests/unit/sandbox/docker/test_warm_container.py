"""The end of a warm container that a busy machine is slow to remove."""

from typing import Any, cast

import docker
from docker.errors import APIError
from requests import ReadTimeout

from sandbox.docker.container import AttachedStream
from sandbox.docker.warm_container import end_container


class SlowDaemon:
    """Has begun to remove the container, and is done when it is waited for a second time."""

    def __init__(self) -> None:
        self.waits = 0

    def wait(self, container: str, *, timeout: float, condition: str) -> None:
        assert (container, condition) == ("c", "removed")
        self.waits += 1
        if self.waits == 1:
            raise ReadTimeout(f"{timeout} s")

    def remove_container(self, container: str, **options: Any) -> None:
        raise APIError(
            "409 Conflict", None, f"removal of container {container} is already in progress"
        )


class Stream:
    def __exit__(self, *error: object) -> None:
        pass


def test_a_removal_that_has_begun_is_waited_for() -> None:
    daemon = SlowDaemon()
    end_container(cast(docker.APIClient, daemon), "c", cast(AttachedStream, Stream()))
    assert daemon.waits == 2
