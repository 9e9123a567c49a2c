"""A Docker daemon of our own, that a test may kill. Needs root and `dockerd`."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import docker

from sandbox.docker.base_image import image_exists
from sandbox.docker.docker_client import connect
from sandbox.errors import SandboxUnavailable
from tests.support.serving import wait_until


class OwnDaemon:
    """`with OwnDaemon(folder) as daemon`: beside the machine's own, sharing nothing with it."""

    def __init__(self, folder: Path, *, runtimes: Mapping[str, Any] | None = None) -> None:
        """`runtimes` as in Docker's `daemon.json`."""
        self.folder = folder
        self._runtimes = runtimes or {}
        # Docker adds up to 60 characters; the path of a socket has at most 108.
        self._sockets = Path(tempfile.mkdtemp(prefix="dockerd-"))
        self.url = f"unix://{self._sockets}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self._containerd: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "OwnDaemon":
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "daemon.json").write_text(json.dumps({"runtimes": self._runtimes}))
        here = self.folder / "containerd"
        argv = [f"--root={here}/root", f"--state={here}/state", f"--address={here}/socket"]
        here.mkdir(exist_ok=True)
        # Its own, kept alive: one that dockerd starts would die with it and leave a stale pid.
        with (here / "log").open("wb") as log:
            self._containerd = subprocess.Popen(["containerd", *argv], stdout=log, stderr=log)
        try:
            self.start()
        except BaseException:
            self._containerd.terminate()
            self._containerd.wait()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is None or self._process.poll() is not None:
            self.start()  # only a daemon ends its containerd and unmounts its layers
        process = cast("subprocess.Popen[bytes]", self._process)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._containerd is not None:
            self._containerd.terminate()
            self._containerd.wait()
        for place in self.mounts():
            subprocess.run(["umount", "-l", place], check=False)
        shutil.rmtree(self._sockets, ignore_errors=True)

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)
        log = self.folder / "log"
        wait_until(lambda: connect(self.url).close(), SandboxUnavailable, what=f"see {log}")

    def kill(self) -> None:
        """Kill it as a power cut would, except that its containers' shims live on."""
        process = cast("subprocess.Popen[bytes]", self._process)
        process.kill()
        process.wait()
        (self.folder / "pid").unlink(missing_ok=True)

    def client(self) -> docker.APIClient:
        return connect(self.url)

    def copy_image(self, image: str, other: docker.APIClient) -> None:
        """Get `image` from another daemon."""
        if self.has_image(image):
            return
        archive = self.folder / "image.tar"
        stream = cast(Any, other).get_image(image)
        with archive.open("wb") as out:
            for chunk in stream:
                out.write(chunk)
        client = self.client()
        with archive.open("rb") as data:
            client.load_image(data)
        client.close()
        archive.unlink()

    def has_image(self, image: str) -> bool:
        client = self.client()
        try:
            return image_exists(client, image)
        finally:
            client.close()

    def mounts(self) -> list[str]:
        """What is mounted below its folders, the innermost first."""
        lines = Path("/proc/self/mounts").read_text().splitlines()
        found = [line.split()[1] for line in lines]
        ours = (str(self.folder), str(self._sockets))
        return sorted((at for at in found if at.startswith(ours)), reverse=True)

    def _command(self) -> list[str]:
        here = self.folder
        return [
            # In a network of its own: without a bridge it would take the machine's away.
            "unshare",
            "--net",
            "dockerd",
            f"--host={self.url}",
            f"--data-root={here}/data",
            f"--exec-root={self._sockets}/exec",
            f"--pidfile={here}/pid",
            f"--config-file={here}/daemon.json",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            f"--containerd={here}/containerd/socket",
        ]


def can_run_own_daemon() -> bool:
    return os.geteuid() == 0 and shutil.which("dockerd") is not None
