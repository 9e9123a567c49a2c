"""A local socket that leads to the Docker daemon of another machine, over ssh."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from sandbox.errors import SandboxUnavailable
from sandbox.scratch import PREFIX, PROCESS_FILE, lock_folder

REMOTE_SOCKET: Final = "/var/run/docker.sock"
OPEN_SECONDS: Final = 30
STEP_SECONDS: Final = 0.05
OPTIONS: Final = (
    "BatchMode=yes",  # there is no one to type a password
    "ExitOnForwardFailure=yes",
    "StreamLocalBindUnlink=yes",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
    "ControlMaster=no",
    "ControlPath=none",
)


class SshTunnel:
    """One `ssh` process, started by the constructor and ended by `close`. Blocking.

    One connection serves all requests to the daemon: `docker system dial-stdio`, which Docker's
    own client starts for each request, would log in every time.
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
        deadline = time.monotonic() + OPEN_SECONDS
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
            time.sleep(STEP_SECONDS)

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
    options = [word for option in OPTIONS for word in ("-o", option)]
    remote = parts.path if len(parts.path) > 1 else REMOTE_SOCKET
    where = [*(["-p", str(port)] if port else []), *(["-l", user] if user else [])]
    options += ["-F", str(config)] if config else []
    return ["ssh", "-N", "-T", *options, "-L", f"{local}:{remote}", *where, "--", host]


def _port(parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        raise SandboxUnavailable("the port in the address is not a number.") from None
