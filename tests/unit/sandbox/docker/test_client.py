from __future__ import annotations

import socket
from pathlib import Path

import pytest
from docker.errors import APIError

from sandbox.docker.client import connect, translate_docker_errors
from sandbox.errors import SandboxUnavailable


@pytest.mark.parametrize(
    ("error", "mend"),
    [
        (PermissionError(13, "Permission denied"), "member of the `docker` group"),
        (FileNotFoundError(2, "No such file or directory"), "systemctl start docker"),
        (ConnectionRefusedError(111, "Connection refused"), "systemctl start docker"),
        (APIError("500", explanation="no space left on device"), "no space left on device"),
        (OSError("something\nodd"), "something odd"),
    ],
)
def test_every_failure_of_docker_becomes_one_sentence(error: Exception, mend: str) -> None:
    with pytest.raises(SandboxUnavailable) as told, translate_docker_errors("It failed"):
        raise error
    assert str(told.value).startswith("It failed: ")
    assert mend in str(told.value)
    assert "\n" not in str(told.value)


def test_a_socket_without_a_daemon_is_docker_down(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        with pytest.raises(SandboxUnavailable, match="Install and start Docker"):
            connect(f"unix://{path}")
