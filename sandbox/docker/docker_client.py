"""The daemon: where it is, how to connect (socket, TLS, SSH), our labels, translated errors."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import docker
from docker.errors import APIError, DockerException, TLSParameterError
from docker.tls import TLSConfig

from sandbox.docker.locate import DaemonPlace, find_daemon
from sandbox.errors import SandboxUnavailable
from sandbox.scratch import PREFIX, PROCESS_FILE, lock_folder

LABEL_MAKER: Final = "capuchin.maker"
"""On every image except the base: the installation that made it; only that one removes it."""
LABEL_OWN_DOCKERFILE: Final = "capuchin.own"
"""On images built on a repository's own Dockerfile: not even their Python is ours."""
TLS_FILES: Final = ("ca.pem", "cert.pem", "key.pem")
"""As Docker's own client expects them in DOCKER_CERT_PATH."""


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
    """A client of the daemon at `docker_url`; None is where Docker's own client looks.

    `shown_url` is the address in messages, if it is not `docker_url`.

    Raises:
        SandboxUnavailable: no daemon answers, or it refuses us.
    """
    url = docker_url or find_daemon().url
    with translate_docker_errors(f"Docker could not be reached at {shown_url or url}"):
        if url.startswith("unix://"):
            # Fail here if no daemon listens: the SDK would leave its sockets open.
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(url.removeprefix("unix://"))
        return DockerClient(base_url=url, version="auto", timeout=int(timeout), tls=tls or False)


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
    if any(
        "podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ()
    ):
        raise SandboxUnavailable(
            "This is Podman, which does not support the seccomp profile that the sandbox needs. "
            "Install Docker, and set DOCKER_HOST to its socket."
        )
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
    if re.search("CERTIFICATE_VERIFY_FAILED|SSLV3_ALERT|TLSV1_ALERT|TLSV13_ALERT", text):
        return f"the certificates were not accepted: {text[-200:]}. Check DOCKER_CERT_PATH."
    unreachable = "Connection (refused|aborted|reset)|No such file|Max retries exceeded"
    if re.search(unreachable, text):
        return (
            "no daemon answers. Install and start Docker (`systemctl start docker`), or name its "
            "socket in DOCKER_HOST."
        )
    return text[:500]


class SshTunnel:
    """One `ssh` process, started by the constructor and ended by `close`. Blocking.

    One connection serves all requests to the daemon. Docker's SDK can start ssh, too, but logs in
    for each request, needs Docker's client on the other machine, and cannot attach to a container.
    """

    def __init__(self, url: str, config: Path | None = None) -> None:
        """`url` is `ssh://[USER@]HOST[:PORT][/PATH/OF/docker.sock]`; `config` a file for `ssh -F`.

        Raises:
            SandboxUnavailable: ssh is missing or cannot connect; contains its message.
        """
        self._folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}ssh-"))
        self._lock = lock_folder(self._folder)
        self._stderr = (self._folder / "words").open("w+b")
        self.socket = self._folder / "docker.sock"
        try:
            self._process = subprocess.Popen(
                ssh_command(url, self.socket, config),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
            )
        except (OSError, SandboxUnavailable) as error:
            self._clear()
            raise SandboxUnavailable(f"Docker could not be reached at {url}: {error}") from error
        (self._folder / PROCESS_FILE).write_text(str(self._process.pid))
        self._wait_until_open(url)

    def is_open(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._clear()

    def _wait_until_open(self, url: str) -> None:
        deadline = time.monotonic() + 30
        while not self._is_listening():
            ended = not self.is_open()
            if ended or time.monotonic() > deadline:
                self._stderr.seek(0)
                message = " ".join(self._stderr.read(4000).decode(errors="replace").split())
                self.close()
                raise SandboxUnavailable(
                    f"Docker could not be reached at {url}: ssh {'said' if ended else 'hangs'}: "
                    f"{message or 'nothing'}. Log in once by hand as the user that runs Capuchin "
                    f"(`ssh {urlsplit(url).netloc.replace(':', ' -p ')}`): the host's key must be "
                    "known and no password needed."
                )
            time.sleep(0.05)

    def _is_listening(self) -> bool:
        """Whether ssh listens; whether Docker answers behind it is seen at the first request."""
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.socket))
        except OSError:
            return False
        return True

    def _clear(self) -> None:
        self._stderr.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


def ssh_command(url: str, local: Path, config: Path | None) -> list[str]:
    """The command that opens the tunnel.

    Raises:
        SandboxUnavailable: `url` names no host, or contains what ssh would read as an option.
    """
    parts = urlsplit(url)
    host, user, port = parts.hostname or "", parts.username or "", _port(parts)
    if not host or parts.password is not None or host.startswith("-") or user.startswith("-"):
        raise SandboxUnavailable("the address must read ssh://USER@HOST, without a password.")
    settings = (
        "BatchMode=yes",  # nobody is there to type a password
        "ExitOnForwardFailure=yes",
        "StreamLocalBindUnlink=yes",
        "ServerAliveInterval=15",
        "ServerAliveCountMax=4",
        "ControlMaster=no",
        "ControlPath=none",
    )
    options = [word for setting in settings for word in ("-o", setting)]
    remote = parts.path if len(parts.path) > 1 else "/var/run/docker.sock"
    where = [*(["-p", str(port)] if port else []), *(["-l", user] if user else [])]
    options += ["-F", str(config)] if config else []
    return ["ssh", "-N", "-T", *options, "-L", f"{local}:{remote}", *where, "--", host]


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        raise SandboxUnavailable("the port in the address is not a number.") from None


class DockerAddress:
    """Makes clients of one daemon. The constructor does nothing; `connect` may be repeated."""

    def __init__(
        self, url: str = "", *, tls: Path | None = None, ssh_config: Path | None = None
    ) -> None:
        """`url` is `unix://`, `tcp://` or `ssh://`; empty is where Docker's own client looks.

        `tls` is a folder with `TLS_FILES`: it makes `tcp://` encrypted, with certificates on both
        sides (https://docs.docker.com/engine/security/protect-access/).
        `ssh_config` replaces the user's own configuration of ssh.
        """
        found = DaemonPlace(url) if url else find_daemon()
        self.url = found.url
        self._tls = tls or found.tls
        self._ssh_config = ssh_config
        self._guard = threading.Lock()
        self._tunnel: SshTunnel | None = None

    def connect(self, *, timeout: float = 180) -> docker.APIClient:
        """Blocking.

        Raises:
            SandboxUnavailable: no daemon answers, or it refuses us.
        """
        if self.url.startswith("ssh://"):
            return connect(f"unix://{self._open_tunnel()}", timeout=timeout, shown_url=self.url)
        return connect(self.url, timeout=timeout, tls=self._certificates())

    @property
    def is_lost(self) -> bool:
        """Whether the ssh tunnel has broken down; `connect` opens a new one."""
        with self._guard:
            return self._tunnel is not None and not self._tunnel.is_open()

    def close(self) -> None:
        with self._guard:
            tunnel, self._tunnel = self._tunnel, None
        if tunnel is not None:
            tunnel.close()

    def _open_tunnel(self) -> Path:
        with self._guard:
            if self._tunnel is not None and not self._tunnel.is_open():
                self._tunnel.close()
                self._tunnel = None
            if self._tunnel is None:
                self._tunnel = SshTunnel(self.url, self._ssh_config)
            return self._tunnel.socket

    def _certificates(self) -> TLSConfig | None:
        if self._tls is None:
            return None
        ca, certificate, key = (str(self._tls / name) for name in TLS_FILES)
        try:
            return TLSConfig(client_cert=(certificate, key), ca_cert=ca, verify=True)
        except TLSParameterError:
            raise SandboxUnavailable(
                f"{self._tls} does not hold {', '.join(TLS_FILES)}, which Docker's TLS needs."
            ) from None
