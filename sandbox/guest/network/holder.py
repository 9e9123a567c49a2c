"""Holds the network of a build: opens what listens in it, and hands that to `egress.py`.

It is started for each build, so it imports little.
"""

from __future__ import annotations

import os
import socket
import time

MEETING = "/run/capuchin-network"
"""A folder that both containers share."""
DOOR = f"{MEETING}/door"
INDEX_PORT = 3141
PROXY_PORT = 3142
SECONDS = 30


def hold() -> None:
    """Open the sockets in the build's network and hand them over."""
    listeners = [listen(port) for port in (INDEX_PORT, PROXY_PORT)]
    with connect_to(DOOR) as door:
        socket.send_fds(door, [b"listeners"], [each.fileno() for each in listeners])
    for each in listeners:
        each.close()
    wait_for_host()


def listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener


def connect_to(path: str) -> socket.socket:
    """The socket at `path`, which the other container makes."""
    deadline = time.monotonic() + SECONDS
    while not os.path.exists(path) and time.monotonic() < deadline:  # noqa: PTH110
        time.sleep(0.01)
    door = socket.socket(socket.AF_UNIX)
    while True:
        try:
            door.connect(path)
        except ConnectionRefusedError:  # bound, and not yet listening
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return door


def wait_for_host() -> None:
    while os.read(0, 1024):
        pass
