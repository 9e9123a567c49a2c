"""What an image says of itself that stands on a repository's own Dockerfile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import docker
from docker.errors import ImageNotFound

from sandbox.docker.client import LABEL_OWN, docker_errors
from sandbox.docker.container import ENVIRONMENT, PROGRAM_ENVIRONMENT

OURS: Final = ("HOME", "VIRTUAL_ENV")


def own_environment(client: docker.APIClient, image: str) -> dict[str, str] | None:
    """What programs see there: its ENV, with our interpreter first on its PATH.

    None of an image that stands on our own base alone, or is gone.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    with docker_errors("Docker could not look for an image"):
        try:
            facts = cast(dict[str, Any], client.inspect_image(image))
        except ImageNotFound:
            return None
    config: Mapping[str, Any] = facts["Config"] or {}
    if LABEL_OWN not in (config.get("Labels") or {}):
        return None
    stated = dict(line.partition("=")[::2] for line in config.get("Env") or ())
    path = stated.get("PATH") or PROGRAM_ENVIRONMENT["PATH"]
    ours = {name: PROGRAM_ENVIRONMENT[name] for name in OURS}
    return {**PROGRAM_ENVIRONMENT, **stated, **ours, "PATH": f"{ENVIRONMENT}/bin:{path}"}
