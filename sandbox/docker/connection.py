"""The connection of one engine to its Docker daemon, and what the daemon said about its host."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import docker

from sandbox.docker.address import DockerAddress
from sandbox.docker.client import translate_docker_errors
from sandbox.docker.container import Runtime, choose_runtime, seccomp_profile
from sandbox.errors import SandboxUnavailable
from sandbox.frozen import replace
from sandbox.limits import Limits


class DockerConnection:
    """Connects at the first call of `client`, and again after the connection was lost. Blocking."""

    def __init__(self, address: DockerAddress, *, runtime: str) -> None:
        """`runtime` is as in `DockerOptions`."""
        self.address = address
        self.runtime = Runtime(seccomp_profile())
        """Its name is known once `client` has connected."""
        self.cpus = 1.0
        """How many processors the daemon has, once `client` has connected."""
        self._requested_runtime = runtime
        self._lock = threading.Lock()
        self._connected: docker.APIClient | None = None
        self._is_closed = False

    def client(self) -> docker.APIClient:
        """Raises `SandboxUnavailable` if the daemon does not answer or lacks the runtime."""
        with self._lock:
            if self._connected is not None and self.address.is_lost:
                self._connected.close()
                self._connected = None
            if self._connected is None:
                self._connected = self._connect()
            if self._is_closed:
                self._connected.close()
            return self._connected

    def limit_cpus(self, limits: Limits) -> Limits:
        """`limits` with no more processors than the daemon has: it would refuse the container."""
        return replace(limits, cpus=min(limits.cpus, self.cpus))

    def close(self) -> None:
        """Does not wait for a thread that is still at work: it may even connect after this."""
        self._is_closed = True
        if self._connected is not None:
            self._connected.close()
        self.address.close()

    def _connect(self) -> docker.APIClient:
        client = self.address.connect()
        try:
            with translate_docker_errors("Docker does not answer"):
                info: dict[str, Any] = client.info()
            name = choose_runtime(self._requested_runtime, info["Runtimes"])
        except SandboxUnavailable:
            client.close()
            raise
        self.cpus = float(info["NCPU"])
        self.runtime = dataclasses.replace(self.runtime, name=name)
        return client
