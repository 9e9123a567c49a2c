"""Small HTTP servers beside a test, and waiting for programs that listen on this machine."""

import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Final

SECONDS: Final = 120
"""Longer than any program takes to start on a busy machine."""


@contextmanager
def serve_beside(
    handler: Callable[..., BaseHTTPRequestHandler],
    host: str = "127.0.0.1",
    *,
    tls: SSLContext | None = None,
) -> Generator[int]:
    """Serve from a thread until the block ends; yields the port."""
    with ThreadingHTTPServer((host, 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def wait_until(
    ask: Callable[[], object], *failures: type[Exception], seconds: float = SECONDS, what: str = ""
) -> None:
    """Ask until the answer is neither false nor one of `failures`; None counts as true.

    Raises:
        AssertionError: it still is after `seconds`; the message is `what`.
    """
    deadline = time.monotonic() + seconds
    while True:
        with suppress(*failures):
            answer = ask()
            if answer is None or answer:
                return
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def wait_for_port(port: int) -> None:
    wait_until(
        lambda: socket.create_connection(("127.0.0.1", port), 1).close(),
        OSError,
        what=f"nothing listens on port {port}",
    )
