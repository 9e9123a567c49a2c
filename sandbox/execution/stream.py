"""The byte stream to a container, whatever the backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

STDOUT: Final = 1
STDERR: Final = 2


class DeadlinePassed(Exception):
    """The deadline passed before the next frame came."""


class Stream(Protocol):
    """Standard input, output and error of process 1 of a lane, wherever it runs."""

    def send(self, data: bytes, *, seconds: float) -> None:
        """Raises `OSError` or `ValueError` if it does not get there in `seconds`."""
        ...

    def read(self, *, deadline: float, stopped: Callable[[], bool]) -> tuple[int, bytes] | None:
        """The next piece of output and which (`STDOUT`, `STDERR`); None at its end.

        Raises:
            Late: `deadline` (of `time.monotonic`) has passed, or `stopped` says so.
            OSError, ValueError: the way there is broken.
        """
        ...
