"""The connection to the Docker daemon, our labels there, and its errors in our words."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import docker
from docker.errors import APIError, DockerException

from sandbox.base import SandboxUnavailable

UID: Final = 10001
USER: Final = f"{UID}:{UID}"
LABEL_RUN: Final = "capuchin.run"
"""On every container: the run it works for, empty when it works for none."""
LABEL_OWNER: Final = "capuchin.owner"
"""On every container: the installation that it belongs to, and that alone may reap it."""
LABEL_KIND: Final = "capuchin.kind"
"""`build` or `execution` on containers; `base`, `dependencies` or `tree` on images."""

NOBODY_THERE: Final = (
    "Connection refused",
    "No such file",
    "Connection aborted",
    "Connection reset",
    "Max retries exceeded",
)
DEFAULT_SOCKET: Final = "unix:///var/run/docker.sock"


def connect(docker_url: str | None, *, timeout: float = 180) -> docker.APIClient:
    """A client of the daemon at `docker_url`; None is the local socket.

    Raises:
        SandboxUnavailable: nothing answers there, or not to us.
    """
    url = docker_url or DEFAULT_SOCKET
    with docker_errors(f"Docker could not be reached at {url}"):
        if url.startswith("unix://"):
            knock(url.removeprefix("unix://"))
        return docker.APIClient(base_url=url, version="auto", timeout=int(timeout))


def knock(path: str) -> None:
    """Fail here if nobody listens: the SDK would leave its sockets open."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(path)


@contextmanager
def docker_errors(doing: str) -> Generator[None]:
    """Whatever Docker or the way to it answers badly becomes `SandboxUnavailable`.

    The SDK lets the errors of `requests` through, which are `OSError`s.

    `doing` is a sentence without its stop that says what failed; the cause and the mend are added.
    """
    try:
        yield
    except (DockerException, OSError) as error:
        raise SandboxUnavailable(f"{doing}: {cause(error)}") from error


def cause(error: Exception) -> str:
    """One line: what happened and, where it is known, what to do."""
    text = " ".join(str(error).split())
    if "Permission denied" in text or isinstance(error, PermissionError):
        return "permission denied. Run as a member of the `docker` group or as root."
    if isinstance(error, APIError):
        return str(error.explanation or text)
    if any(word in text for word in NOBODY_THERE):
        return "no daemon answers. Install and start Docker (`systemctl start docker`)."
    return text[:500]
