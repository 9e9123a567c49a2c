"""The client of the Docker daemon, our labels there, and the translation of its errors."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import docker
from docker.errors import APIError, DockerException
from docker.tls import TLSConfig

from sandbox.errors import SandboxUnavailable

LABEL_MAKER: Final = "capuchin.maker"
"""On every image except the base: the installation that made it; only that one removes it."""
LABEL_OWN_DOCKERFILE: Final = "capuchin.own"
"""On images built on a repository's own Dockerfile: not even their Python is ours."""

UNREACHABLE: Final = (
    "Connection refused",
    "No such file",
    "Connection aborted",
    "Connection reset",
    "Max retries exceeded",
)
UNTRUSTED: Final = ("CERTIFICATE_VERIFY_FAILED", "SSLV3_ALERT", "TLSV1_ALERT", "TLSV13_ALERT")
DEFAULT_SOCKET: Final = "unix:///var/run/docker.sock"


class DockerClient(docker.APIClient):
    """Trusts the given authority; `requests` would prefer REQUESTS_CA_BUNDLE.

    No connection outlives `close`. A thread that is still at work, for example one that removes a
    container, may go on to call a closed client; its connection ends with its answer.
    """

    _is_closed = False

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:
        known = self.verify if verify is None else verify
        return super().merge_environment_settings(url, proxies, stream, known, cert)

    def send(self, request: Any, **options: Any) -> Any:
        if self._is_closed:
            request.headers.setdefault("Connection", "close")
        try:
            return super().send(request, **options)
        finally:
            if self._is_closed:
                super().close()

    def close(self) -> None:
        self._is_closed = True
        super().close()

    def _retrieve_server_version(self) -> Any:
        parent: Any = super()
        try:
            return parent._retrieve_server_version()
        except DockerException:
            self.close()
            raise


def connect(
    docker_url: str | None,
    *,
    timeout: float = 180,
    tls: TLSConfig | None = None,
    shown_url: str = "",
) -> docker.APIClient:
    """A client of the daemon at `docker_url`; None is the local socket.

    `shown_url` is the address in messages, if it is not `docker_url`.

    Raises:
        SandboxUnavailable: no daemon answers, or it refuses us.
    """
    url = docker_url or DEFAULT_SOCKET
    with translate_docker_errors(f"Docker could not be reached at {shown_url or url}"):
        if url.startswith("unix://"):
            check_socket(url.removeprefix("unix://"))
        return DockerClient(base_url=url, version="auto", timeout=int(timeout), tls=tls or False)


def check_socket(path: str) -> None:
    """Fail here if no daemon listens: the SDK would leave its sockets open."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(path)


@contextmanager
def translate_docker_errors(failure: str) -> Generator[None]:
    """Turn errors of Docker and of the connection to it into `SandboxUnavailable`.

    The SDK lets the errors of `requests` through, which are `OSError`s. `failure` is a sentence
    without a full stop that says what failed; the cause and a remedy are added.
    """
    try:
        yield
    except (DockerException, OSError) as error:
        raise SandboxUnavailable(f"{failure}: {error_cause(error)}") from error


def check_daemon(client: docker.APIClient) -> str:
    """The daemon's version, in words.

    Raises:
        SandboxUnavailable: it does not answer or cannot isolate; says what to do.
    """
    with translate_docker_errors("Docker does not answer"):
        version: dict[str, Any] = client.version()
        info: dict[str, Any] = client.info()
    missing = [name for name in ("MemoryLimit", "PidsLimit", "CpuCfsQuota") if not info[name]]
    if not any("seccomp" in option for option in info.get("SecurityOptions") or ()):
        missing.append("seccomp")
    if missing:
        raise SandboxUnavailable(
            f"This Docker daemon does not enforce {', '.join(missing)}. Run a rootful daemon, or a "
            "rootless one on a host with cgroup v2."
        )
    return f"Docker {version['Version']}"


def error_cause(error: Exception) -> str:
    """One line: what happened and, if known, what to do."""
    text = " ".join(str(error).split())
    if "Permission denied" in text or isinstance(error, PermissionError):
        return "permission denied. Run as a member of the `docker` group or as root."
    if isinstance(error, APIError):
        return str(error.explanation or text)
    if any(word in text for word in UNTRUSTED):
        return f"the certificates do not fit, {text[-200:]}. Check CAPUCHIN_DOCKER_TLS_DIR."
    if any(word in text for word in UNREACHABLE):
        return "no daemon answers. Install and start Docker (`systemctl start docker`)."
    return text[:500]
