"""The network of a build step: the one that the operator names, without cloud metadata."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import docker
from docker.errors import NotFound
from docker.types import LogConfig

from sandbox.docker.attach import AttachedStream
from sandbox.docker.cold_execution import remove_container
from sandbox.errors import SandboxUnavailable
from sandbox.execution.cancellation import Stopped
from sandbox.execution.stream import DeadlinePassed
from sandbox.layout import LABEL_KIND

READY_SECONDS = 30
BLOCK_PROGRAM = "/opt/capuchin/block_metadata.py"


@contextmanager
def open_build_network(
    client: docker.APIClient,
    base: str,
    *,
    network: str,
    labels: Mapping[str, str],
    stop: threading.Event,
) -> Generator[str]:
    """A network mode for containers that share `network` and cannot reach cloud metadata.

    The routes belong to a container that runs only our own program, on the image `base`. It ends
    with the block, or when this process dies.

    Raises:
        SandboxUnavailable: Docker or the kernel refuses the routes.
        Stopped: `stop` was set.
    """
    container = create_network_container(client, base, network, labels)
    try:
        with AttachedStream(client, container) as attached:
            start_network_container(client, container, network)
            wait_until_ready(attached, stop)
            yield f"container:{container}"
    finally:
        remove_container(client, container)


def create_network_container(
    client: docker.APIClient, base: str, network: str, labels: Mapping[str, str]
) -> str:
    host = client.create_host_config(
        network_mode=network,
        cap_drop=["ALL"],
        cap_add=["NET_ADMIN"],
        security_opt=["no-new-privileges:true"],
        read_only=True,
        pids_limit=8,
        mem_limit=64 * 1024 * 1024,
        log_config=LogConfig(type="none"),
    )
    made = cast(
        dict[str, Any],
        client.create_container(
            base,
            entrypoint=["python3", "-I", "-S", BLOCK_PROGRAM],
            command=[],
            user="0:0",
            working_dir="/",
            stdin_open=True,
            use_config_proxy=False,
            host_config=host,
            labels={**labels, LABEL_KIND: "network"},
        ),
    )
    return str(made["Id"])


def start_network_container(client: docker.APIClient, container: str, network: str) -> None:
    try:
        client.start(container)
    except NotFound as error:
        raise SandboxUnavailable(
            f"Docker has no network {network}: {error.explanation}. Make it there, or set "
            "CAPUCHIN_BUILD_NETWORK to another."
        ) from error


def wait_until_ready(attached: AttachedStream, stop: threading.Event) -> None:
    """Wait until the container reports its routes."""
    received = b""
    deadline = time.monotonic() + READY_SECONDS
    try:
        while received != b"ready\n":
            frame = attached.read(deadline=deadline, stopped=stop.is_set)
            if frame is None:
                last = received.decode(errors="replace").strip().splitlines()[-1:]
                raise SandboxUnavailable(
                    "The cloud's metadata address could not be blocked for builds: "
                    f"{' '.join(last)[:200]}"
                )
            received += frame[1]
    except DeadlinePassed:
        if stop.is_set():
            raise Stopped from None
        raise SandboxUnavailable(
            f"The network of a build was not ready after {READY_SECONDS} seconds."
        ) from None
