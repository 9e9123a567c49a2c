import socket
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import cast

import pytest
from docker.errors import APIError

from sandbox.docker.docker_client import connect, translate_docker_errors
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


@pytest.mark.parametrize("answer", [b'{"ApiVersion": "1.43"}', b"{}"])
def test_no_connection_is_left_open(tmp_path: Path, answer: bytes) -> None:
    with FakeDaemon(tmp_path / "docker.sock", answer) as fake:
        if answer == b"{}":
            with pytest.raises(SandboxUnavailable):
                connect(fake.url)
        else:
            client = connect(fake.url)
            client.version()
            client.close()
            # A thread that is still at work may be later than the end of its engine.
            client.version()
        assert fake.wait_until_all_are_closed()


class FakeDaemon:
    """Gives every request one answer, and keeps connections open until the client closes them."""

    def __init__(self, path: Path, answer: bytes) -> None:
        self.url = f"unix://{path}"
        self._answer = answer
        self._server = _Server(str(path), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> "FakeDaemon":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait_until_all_are_closed(self) -> bool:
        deadline = time.monotonic() + 120
        while self._server.open and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self._server.open

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                cast(_Server, self.server).open.add(self)

            def finish(self) -> None:
                super().finish()
                cast(_Server, self.server).open.discard(self)

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def address_string(self) -> str:
                return "the client"

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(path, handler)
        self.open: set[object] = set()
