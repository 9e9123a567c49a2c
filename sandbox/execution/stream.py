"""The byte stream to a container, for every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

STDOUT: Final = 1
STDERR: Final = 2


class DeadlinePassed(Exception):
    """The deadline passed before the next frame came."""


class Stream(Protocol):
    """Standard input, output and error of process 1 of a container or pod."""

    def send(self, data: bytes, *, seconds: float) -> None:
        """Raises `OSError` or `ValueError` if `data` is not sent within `seconds`."""
        ...

    def read(self, *, deadline: float, stopped: Callable[[], bool]) -> tuple[int, bytes] | None:
        """The next piece of output and its stream (`STDOUT` or `STDERR`); None at the end.

        Raises:
            DeadlinePassed: `deadline` (of `time.monotonic`) has passed, or `stopped()` is true.
            OSError, ValueError: the connection is broken.
        """
        ...
