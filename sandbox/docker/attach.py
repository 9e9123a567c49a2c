"""The attached stream of one container: what it prints, frame by frame, with a deadline."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, cast

import docker

from sandbox.execution.stream import DeadlinePassed

POLL_SECONDS: Final = 0.2
"""How long it may take until a stop from another thread is noticed."""
CHUNK: Final = 64 * 1024


class AttachedStream:
    """Standard input, output and error of a container, attached before it starts.

    Frames: https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerAttach
    """

    def __init__(self, client: docker.APIClient, container: str) -> None:
        params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        self._holder = cast(Any, client.attach_socket(container, params=params))
        # For a unix or plain TCP socket the SDK returns a raw reader around the real socket.
        self._socket: socket.socket = getattr(self._holder, "_sock", self._holder)
        self._frame_bytes_left = 0
        self._kind = 0

    def __enter__(self) -> AttachedStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        response: Any = getattr(self._holder, "_response", None)
        # The response owns the connection: closed after the reader, it would warn.
        if response is not None:
            response.close()
        self._holder.close()

    def send(self, data: bytes, *, seconds: float) -> None:
        self._socket.settimeout(seconds)
        self._socket.sendall(data)

    def read(self, *, deadline: float, stopped: Callable[[], bool]) -> tuple[int, bytes] | None:
        """The next piece of output with its stream; None when the container has ended.

        Raises:
            DeadlinePassed: `deadline` (of `time.monotonic`) has passed, or `stopped()` is true.
        """
        if not self._frame_bytes_left:
            header = self._receive_exactly(8, deadline, stopped)
            if header is None:
                return None
            self._kind, self._frame_bytes_left = struct.unpack(">BxxxL", header)
            if not self._frame_bytes_left:
                return self._kind, b""
        data = self._receive(min(self._frame_bytes_left, CHUNK), deadline, stopped)
        self._frame_bytes_left -= len(data)
        return (self._kind, data) if data else None

    def _receive_exactly(
        self, size: int, deadline: float, stopped: Callable[[], bool]
    ) -> bytes | None:
        data = b""
        while len(data) < size:
            more = self._receive(size - len(data), deadline, stopped)
            if not more:
                return None
            data += more
        return data

    def _receive(self, size: int, deadline: float, stopped: Callable[[], bool]) -> bytes:
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or stopped():
                raise DeadlinePassed
            wait = min(left, POLL_SECONDS)
            if not self._is_decrypted():
                ready, _, _ = select.select([self._socket], [], [], wait)
                if not ready:
                    continue
            # Over TLS a part of a record may have arrived, and the rest may take longer.
            self._socket.settimeout(wait)
            with contextlib.suppress(TimeoutError):
                return self._socket.recv(size)

    def _is_decrypted(self) -> bool:
        """Whether decrypted bytes wait in this process, where `select` does not see them."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
