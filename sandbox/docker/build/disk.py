"""The limit of what a build writes to its host's disk, checked at intervals.

Not every storage driver has a limit of its own, so a build that writes many files fast gets some
way past this one. A single file is stopped at once (`RLIMIT_FSIZE`, `create_build_container`).
"""

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
"""The share of the time that measuring may take: the daemon counts every file."""


class BuildDisk:
    """The sum of what the containers of one build have written."""

    def __init__(self, client: docker.APIClient, *, max_mb: int) -> None:
        self.is_over = False
        self._client = client
        self._max_bytes = max_mb * 1_000_000
        self._written: dict[str, int] = {}
        self._next = time.monotonic() + MEASURE_SECONDS

    def measure(self, *, force: bool = False, **filters: str) -> None:
        """Measure what the containers that match `filters` have written, if it is time again.

        `force` measures in any case, and includes containers that have ended.
        """
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
    """Remove `container` as soon as it has written more than `max_mb`."""
    watch = BuildDisk(client, max_mb=max_mb)
    ended = threading.Event()

    def measure_until_over() -> None:
        while not ended.wait(MEASURE_SECONDS / 4):
            try:
                watch.measure(id=container)
            except (DockerException, OSError):
                continue  # the thread that waits for the container reports it
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
