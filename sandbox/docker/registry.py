"""Pushes images to a registry, for sandboxes on machines that did not build them. Blocking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import docker
from docker.errors import ImageNotFound

from sandbox.docker.client import translate_docker_errors
from sandbox.errors import SandboxUnavailable


def push_image(client: docker.APIClient, image: str, registry: str) -> str:
    """Push `image` and return its name in `registry`, by digest. Known layers are not sent again.

    The login is that of Docker's own configuration (`docker login`), which the SDK reads.

    Raises:
        SandboxUnavailable: Docker or the registry refuses it.
    """
    name, _, tag = image.partition(":")
    repository = f"{registry}/{name.replace('/', '-')}"
    with translate_docker_errors(f"The environment image could not be pushed to {registry}"):
        try:
            client.tag(image, repository, tag)
        except ImageNotFound as error:
            raise SandboxUnavailable(
                f"The environment image {image} is gone; prepare it again."
            ) from error
        lines = cast(
            Iterator[dict[str, Any]], client.push(repository, tag=tag, stream=True, decode=True)
        )
        digest, error = "", ""
        for line in lines:
            error = error or str(line.get("error", ""))
            facts: dict[str, str] = line.get("aux") or {}
            digest = facts.get("Digest", digest)
    if error:
        raise SandboxUnavailable(
            f"The environment image could not be pushed to {registry}: {error}"
        )
    return f"{repository}@{digest}" if digest else f"{repository}:{tag}"
