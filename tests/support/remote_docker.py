"""This machine's Docker as if it were remote: behind TLS, and behind a real sshd."""

import getpass
import select
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trustme

from capuchin_demo.environment import find_free_port
from tests.support.serving import wait_for_port

DOCKER = "/var/run/docker.sock"
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
"""It must be started by its full path."""


@contextmanager
def docker_behind_tls(folder: Path, docker: str = DOCKER) -> Generator[int]:
    """The port of a server that speaks TLS, asks for a certificate and hands on to Docker.

    `folder` gets the client's `ca.pem`, `cert.pem` and `key.pem`.
    """
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.issue_cert("localhost").configure_cert(context)
    client = authority.issue_cert("capuchin@example.org")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    client.private_key_pem.write_to_path(folder / "key.pem")
    client.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    with DockerProxy(context, docker) as proxy:
        yield proxy.port


class DockerProxy:
    """Forwards every connection to Docker's socket, each in a thread."""

    def __init__(self, context: ssl.SSLContext, docker: str) -> None:
        self._docker = docker
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "DockerProxy":
        self._start(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()

    def _listen(self) -> None:
        with self._listener:
            while not self._done.is_set():
                if select.select([self._listener], [], [], 0.1)[0]:
                    asked, _ = self._listener.accept()
                    self._start(partial(self._serve, asked))

    def _serve(self, plain: socket.socket) -> None:
        with plain, suppress(OSError), socket.socket(socket.AF_UNIX) as docker:
            docker.connect(self._docker)
            with self._context.wrap_socket(plain, server_side=True) as asked:
                other = {asked: docker, docker: asked}
                while not self._done.is_set():
                    ready = [asked] if asked.pending() else select.select([*other], [], [], 0.1)[0]
                    for end in ready:
                        data = end.recv(65536)
                        if not data:
                            return
                        other[end].sendall(data)


def skip_without_sshd() -> None:
    if not SSHD:
        pytest.skip("sshd is not here; install openssh-server to run this")


@contextmanager
def docker_behind_ssh(folder: Path) -> Generator[str]:
    """The address of Docker behind a real sshd on this machine; needs openssh-server.

    `folder` gets the client's configuration, `ssh_config`, and a command `bin/ssh` that uses it in
    place of the user's.
    """
    for name in ("host", "user"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(argv, check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    port = find_free_port()
    config = folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nPermitRootLogin yes\nAllowStreamLocalForwarding yes\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    argv = [str(SSHD), "-D", "-e", "-f", str(config)]
    with (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen(argv, stderr=log)
    key = (folder / "host.pub").read_text()
    (folder / "known").write_text(f"[127.0.0.1]:{port} {key}")
    (folder / "ssh_config").write_text(
        f"IdentityFile {folder}/user\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
        "GlobalKnownHostsFile none\nStrictHostKeyChecking yes\n"
    )
    command = folder / "bin/ssh"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    command.chmod(0o755)
    wait_for_port(port)
    try:
        yield f"ssh://{getpass.getuser()}@127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
