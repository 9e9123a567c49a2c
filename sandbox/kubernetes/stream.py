"""Standard input, output and error of a pod, over the cluster's attach protocol."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from sandbox.docker.attach import POLL_SECONDS
from sandbox.execution.stream import STDERR, STDOUT, DeadlinePassed

MESSAGE_BYTES: Final = 32 * 1024
"""Bytes per message: kubelets refuse much larger ones."""


class PodStream:
    """Implements `sandbox.execution.stream.Stream` on the websocket of `kubernetes.stream`.

    Protocol: https://kubernetes.io/docs/reference/using-api/websockets/, `v4.channel.k8s.io`.
    """

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    def send(self, data: bytes, *, seconds: float) -> None:
        self._socket.sock.settimeout(seconds)
        for start in range(0, len(data), MESSAGE_BYTES):
            if not self._socket.is_open():
                raise OSError("the pod's input is closed")
            self._socket.write_stdin(data[start : start + MESSAGE_BYTES])

    def read(self, *, deadline: float, stopped: Callable[[], bool]) -> tuple[int, bytes] | None:
        while True:
            for kind, channel in ((STDOUT, 1), (STDERR, 2)):
                data = self._socket.read_channel(channel)
                if data:
                    return kind, data if isinstance(data, bytes) else data.encode()
            if not self._socket.is_open():
                return None
            left = deadline - time.monotonic()
            if left <= 0 or stopped():
                raise DeadlinePassed
            self._socket.update(timeout=min(left, POLL_SECONDS))

    def close(self) -> None:
        self._socket.close()
        # If the other side closed first, `close` alone leaves the connection open.
        self._socket.sock.shutdown()
