"""Images into a registry, for sandboxes on machines that have not built them. Blocking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import docker
from docker.errors import ImageNotFound

from sandbox.docker.client import translate_docker_errors
from sandbox.errors import SandboxUnavailable


def push_image(client: docker.APIClient, image: str, registry: str) -> str:
    """The name of `image` in `registry`, by digest. What is there already is not sent again.

    Who may push is Docker's own configuration (`docker login`), which the SDK reads.

    Raises:
        SandboxUnavailable: the registry, or Docker, does not take it.
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
        digest = ""
        for line in lines:
            if "error" in line:
                raise SandboxUnavailable(
                    f"The environment image could not be pushed to {registry}: {line['error']}"
                )
            facts: dict[str, str] = line.get("aux") or {}
            digest = facts.get("Digest", digest)
    return f"{repository}@{digest}" if digest else f"{repository}:{tag}"
