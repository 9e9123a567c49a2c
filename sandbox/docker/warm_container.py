"""Starts and ends warm containers on a Docker daemon. Blocking."""

import logging

import docker
from docker.errors import APIError, DockerException, NotFound

from sandbox.docker.apparmor import ADVICE, PROFILE, choose_profile
from sandbox.docker.container import AttachedStream, Daemon, create_warm_container
from sandbox.docker.docker_client import error_cause, translate_docker_errors
from sandbox.errors import SandboxUnavailable
from sandbox.execution.warm_worker import (
    NoWarmContainer,
    WarmContainer,
    WarmContainerDied,
    limits_message,
)
from sandbox.program import Limits

log = logging.getLogger(__name__)

EXIT_SECONDS = 3
"""How long a container may take to end by itself; then it is killed."""


def open_warm_container(daemon: Daemon, image: str, *, limits: Limits) -> WarmContainer:
    """Start a warm container. Raises `SandboxUnavailable` if Docker does not."""
    client = daemon.client
    with translate_docker_errors("The sandbox container failed"):
        container = create_warm_container(daemon, image, limits=limits)
        warm = None
        try:
            attached = AttachedStream(client, container)
            warm = WarmContainer(
                attached, remove=lambda: end_container(client, container, attached)
            )
            client.start(container)
            warm.send(limits_message(limits))
        except (DockerException, OSError, WarmContainerDied) as error:
            if warm is not None:
                warm.close()
            else:
                client.remove_container(container, force=True, v=True)
            if isinstance(error, APIError):
                limited = choose_profile(str(client.base_url)) == PROFILE
                raise NoWarmContainer(
                    f"The warm container did not start: {error_cause(error)}"
                    f"{f'. {ADVICE}' if limited else ''}"
                ) from error
            raise SandboxUnavailable(f"The sandbox container did not start: {error}") from error
        return warm


def end_container(client: docker.APIClient, container: str, attached: AttachedStream) -> None:
    """End the container and all that runs in it, and wait until it is gone.

    When we close its standard input, process 1 ends and Docker removes the container. That is
    faster than a signal, for which Docker would start another program.
    """
    attached.__exit__(None, None, None)
    for by_force, seconds in ((False, EXIT_SECONDS), (True, 30)):
        try:
            if by_force:
                _remove(client, container)
            client.wait(container, timeout=seconds, condition="removed")
        except NotFound:
            return
        except (DockerException, OSError) as error:
            if by_force:
                log.warning("Container %s was not removed: %s", container[:12], error)
        else:
            return


def _remove(client: docker.APIClient, container: str) -> None:
    try:
        client.remove_container(container, force=True, v=True)
    except APIError as error:
        # It removes itself as well. Where that has begun and is not done, we wait for its end.
        if "already in progress" not in str(error):
            raise
