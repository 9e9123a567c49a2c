"""The network of a build: two containers that run only our programs, without any capability.

`holder.hold` runs where the build runs: in a network that has a loopback interface and nothing
else. It opens the listening sockets of the index cache and of the proxy there, and hands them
through a socket file to `serve`, which runs on the network that the operator names. So a build
reaches these two programs, and no interface, route or resolver of anything else; nobody needs a
privilege for it. Both end with their standard input, that is when the host's process ends.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading

from sandbox.guest.network.destinations import Destinations
from sandbox.guest.network.holder import DOOR, SECONDS, wait_for_host
from sandbox.guest.network.index_cache import IndexServer
from sandbox.guest.network.proxy import Proxy


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
        IndexServer(
            asked["index"],
            asked["ca"],
            destinations=destinations,
            listener=index,
            quota=asked["quota"],
        )
    else:
        index.close()
    proxy.setblocking(False)
    threading.Thread(
        target=asyncio.run, args=(Proxy(destinations, asked["parent"]).serve(proxy),), daemon=True
    ).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    wait_for_host()
