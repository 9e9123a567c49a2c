"""What a build writes to the disk of its host, looked at now and then: no storage driver that we
can count on has a limit of its own, so that one who writes many files fast gets some way past it.
A single file of an installation is stopped at once (`RLIMIT_FSIZE`, `create_build_container`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, cast

import docker
from docker.errors import DockerException

from sandbox.docker.cold_execution import remove_container

MEASURE_SECONDS: Final = 2.0
MEASURE_SHARE: Final = 0.05
"""Looking may take this part of the time: the daemon counts every file."""


class BuildDisk:
    """The sum of what the containers of one build have written."""

    def __init__(self, client: docker.APIClient, *, max_mb: int) -> None:
        self.is_over = False
        self._client = client
        self._max_bytes = max_mb * 1_000_000
        self._written: dict[str, int] = {}
        self._next = time.monotonic() + MEASURE_SECONDS

    def measure(self, *, force: bool = False, **filters: str) -> None:
        """Count again, if it is time or must be `force`, what the containers that fit have written,
        those that have ended too."""
        begun = time.monotonic()
        if begun < self._next and not force:
            return
        listed = cast(
            list[dict[str, Any]], self._client.containers(all=force, size=True, filters=filters)
        )
        for container in listed:
            self._written[container["Id"]] = int(container.get("SizeRw") or 0)
        took = time.monotonic() - begun
        self._next = begun + max(MEASURE_SECONDS, took / MEASURE_SHARE)
        self.is_over = sum(self._written.values()) > self._max_bytes


@contextmanager
def watch_disk(client: docker.APIClient, container: str, *, max_mb: int) -> Generator[BuildDisk]:
    """Removes `container` as soon as it is seen to have written more."""
    watch = BuildDisk(client, max_mb=max_mb)
    ended = threading.Event()

    def measure_until_over() -> None:
        while not ended.wait(MEASURE_SECONDS / 4):
            try:
                watch.measure(id=container)
            except (DockerException, OSError):
                continue  # who waits for the container is told
            if watch.is_over:
                remove_container(client, container)
                return

    worker = threading.Thread(target=measure_until_over, daemon=True)
    worker.start()
    try:
        yield watch
    finally:
        ended.set()
        worker.join()
