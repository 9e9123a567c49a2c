"""Removes what dead workers and commands left on a Docker host, found by label. Blocking."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from typing import Any, cast

import docker
from docker.errors import APIError

from sandbox.docker.build.network import INDEX_VOLUME
from sandbox.docker.client import LABEL_MAKER, translate_docker_errors
from sandbox.docker.cold_execution import remove_container
from sandbox.docker.images import collect_base_images, collect_images
from sandbox.engine import UNOWNED_SECONDS, CleanupResult
from sandbox.layout import LABEL_KIND, LABEL_OWNER, LABEL_RUN

ROOTED_LABEL = f"{LABEL_KIND}=rooted"


def clean_host(
    client: docker.APIClient, *, owner: str, live_runs: Collection[str], keep: str
) -> CleanupResult:
    """Remove all that `owner` made and no live run uses, and all base images except `keep`.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    gone = reap_containers(
        client, owner=owner, live_runs=live_runs, older_than=0, unowned_seconds=0
    )
    freed = collect_images(client, maker=owner, max_bytes=0)
    remove_dangling_images(client, maker=owner)
    collect_base_images(client, keep=keep, unused_seconds=0)
    with contextlib.suppress(APIError):  # there is none, or a build uses it
        client.remove_volume(INDEX_VOLUME)
    return CleanupResult(gone, freed)


def reap_containers(
    client: docker.APIClient,
    *,
    owner: str,
    live_runs: Collection[str],
    older_than: float,
    unowned_seconds: float = UNOWNED_SECONDS,
) -> int:
    """Remove the containers of runs that are not in `live_runs`; how many there were.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    removed = 0
    with translate_docker_errors("Docker could not list containers"):
        found: list[dict[str, Any]] = []
        for labels in ([f"{LABEL_OWNER}={owner}"], [f"{LABEL_MAKER}={owner}", ROOTED_LABEL]):
            # The second are made by the daemon, for the RUN lines of a Dockerfile.
            wanted = {"label": labels}
            found += cast(list[dict[str, Any]], client.containers(all=True, filters=wanted))
    for container in found:
        run = container["Labels"].get(LABEL_RUN, "")
        age = time.time() - container["Created"]
        if run not in live_runs and age >= (older_than if run else unowned_seconds):
            remove_container(client, container["Id"])
            removed += 1
    return removed


def remove_dangling_images(client: docker.APIClient, *, maker: str) -> int:
    """Remove the layers of Dockerfiles that never became an image; how many.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    wanted = {"label": f"{LABEL_MAKER}={maker}", "dangling": True}
    removed = 0
    while True:
        with translate_docker_errors("Docker could not list images"):
            found = cast(list[dict[str, Any]], client.images(filters=wanted))
        gone = sum(_try_remove_image(client, image["Id"]) for image in found)
        removed += gone
        if not gone:  # their parents can go in the next round
            return removed


def _try_remove_image(client: docker.APIClient, image: str) -> bool:
    try:
        client.remove_image(image)
    except APIError:
        return False
    return True
