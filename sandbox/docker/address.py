"""Where the Docker daemon is, and how to connect: by a local socket, TLS or ssh."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import docker
from docker.errors import TLSParameterError
from docker.tls import TLSConfig

from sandbox.docker.client import connect
from sandbox.docker.ssh_tunnel import SshTunnel
from sandbox.errors import SandboxUnavailable

TLS_FILES: Final = ("ca.pem", "cert.pem", "key.pem")
"""As Docker's own client expects them in DOCKER_CERT_PATH."""


class DockerAddress:
    """Makes clients of one daemon. The constructor does nothing; `connect` may be repeated."""

    def __init__(
        self, url: str = "", *, tls: Path | None = None, ssh_config: Path | None = None
    ) -> None:
        """`url` is `unix://`, `tcp://` or `ssh://`; empty is the local socket.

        `tls` is a folder with `TLS_FILES`: it makes `tcp://` encrypted, with certificates on both
        sides (https://docs.docker.com/engine/security/protect-access/).
        `ssh_config` replaces the user's own configuration of ssh.
        """
        self.url = url
        self._tls = tls
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
        return connect(self.url or None, timeout=timeout, tls=self._certificates())

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
