"""The network of a build: two containers that run only this program, without any capability.

`hold` runs where the build runs: in a network that has a loopback interface and nothing else. It
opens the listening sockets of the index cache and of the proxy there, and hands them through a
socket file to `serve`, which runs on the network that the operator names. So a build reaches these
two programs, and no interface, route or resolver of anything else; nobody needs a privilege for
it. Both end with their standard input, that is when the host's process ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

from sandbox.guest.network.destinations import Destinations
from sandbox.guest.network.index_cache import PORT, IndexServer
from sandbox.guest.network.proxy import PROXY_PORT, Proxy

MEETING = "/run/capuchin-network"
"""A folder that both containers share."""
DOOR = f"{MEETING}/door"
SECONDS = 30
BACKLOG = 128


def hold() -> None:
    """Open the sockets in the build's network and hand them over."""
    listeners = [listen(port) for port in (PORT, PROXY_PORT)]
    with connect_to(DOOR) as door:
        socket.send_fds(door, [b"listeners"], [each.fileno() for each in listeners])
    for each in listeners:
        each.close()
    wait_for_host()


def serve() -> None:
    """Serve on the sockets that `hold` hands over, as the first line of standard input says."""
    asked = json.loads(sys.stdin.buffer.readline())
    destinations = Destinations(asked["permitted"])
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(SECONDS)
        door.bind(DOOR)
        door.listen(1)
        holder, _ = door.accept()
        with holder:
            _, numbers, _, _ = socket.recv_fds(holder, 100, 2)
    index, proxy = (socket.socket(fileno=number) for number in numbers)
    if asked.get("index"):
        IndexServer(asked["index"], asked["ca"], destinations=destinations, listener=index)
    else:
        index.close()
    proxy.setblocking(False)
    threading.Thread(
        target=asyncio.run, args=(Proxy(destinations, asked["parent"]).serve(proxy),), daemon=True
    ).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    wait_for_host()


def listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(BACKLOG)
    return listener


def connect_to(path: str) -> socket.socket:
    """The socket at `path`, which the other container makes."""
    deadline = time.monotonic() + SECONDS
    while not Path(path).exists() and time.monotonic() < deadline:
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
