"""Why a container was killed, also where Docker hears of its end before it hears the reason."""

from collections.abc import Iterator
from typing import Any, cast

import docker
import pytest

from sandbox.docker.cold_execution import remove_container, wait_for_final_state
from tests.support.docker import any_engine

__all__ = ["any_engine"]

BOMB = "hoard = bytearray(200 << 20)"
WAITS = "import time; time.sleep(60)"


class ForgetfulDaemon:
    """Docker whose states never say that memory was exhausted, as when its end is heard first."""

    def __init__(self, client: docker.APIClient) -> None:
        self._client = cast(Any, client)
        self.wait = self._client.wait
        self.events = self._client.events

    def inspect_container(self, container: str) -> dict[str, Any]:
        seen = self._client.inspect_container(container)
        return {"State": {**seen["State"], "OOMKilled": False}}


@pytest.fixture
def containers(daemon: docker.APIClient) -> Iterator[list[str]]:
    made: list[str] = []
    yield made
    for container in made:
        remove_container(daemon, container)


@pytest.mark.parametrize(("code", "memory"), [(BOMB, True), (WAITS, False)], ids=["memory", "kill"])
def test_docker_says_later_that_memory_was_exhausted(
    daemon: docker.APIClient, prepared: str, containers: list[str], code: str, memory: bool
) -> None:
    client = cast(Any, daemon)
    limits = client.create_host_config(mem_limit="64m", memswap_limit="64m")
    made = client.create_container(
        prepared, entrypoint=["python3", "-c", code], host_config=limits, network_disabled=True
    )
    containers.append(made["Id"])
    client.start(made["Id"])
    if not memory:
        client.kill(made["Id"])
    forgetful = cast(docker.APIClient, ForgetfulDaemon(daemon))
    state = wait_for_final_state(forgetful, made["Id"], reported=False)
    assert (state["ExitCode"], state["OOMKilled"]) == (137, memory)
