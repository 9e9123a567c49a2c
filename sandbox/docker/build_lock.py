"""A lock between all threads and processes of one user on one machine that build the same image."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

POLL_SECONDS: Final = 0.05
_BYTES: Final = 2**40
"""Each name has a byte of one file, which is empty: a lock may lie beyond the end (fcntl(2))."""
_GUARD: Final = threading.Lock()
_THREADS: Final[dict[int, threading.Lock]] = {}


class BuildLock:
    """Free again when its process ends, however it ends.

    Locks of files are a process's, for all its threads: among those a lock of memory decides. The
    file is opened once, as closing it anywhere would let go of all locks that the process holds.
    """

    def __init__(self, name: str) -> None:
        self._byte = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % _BYTES
        with _GUARD:
            self._threads = _THREADS.setdefault(self._byte, threading.Lock())
            self._file = _open_file()

    @contextmanager
    def hold(self) -> Generator[None]:
        """Wait for it, however long that takes, and let go of it when the block ends."""
        self.acquire(timeout=threading.TIMEOUT_MAX)
        try:
            yield
        finally:
            self.release()

    def acquire(self, *, timeout: float) -> bool:
        """Whether it is ours now; asked for `timeout` seconds."""
        deadline = time.monotonic() + timeout
        if not self._threads.acquire(timeout=timeout):
            return False
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._byte)
            except BlockingIOError:  # another process has it
                if time.monotonic() >= deadline:
                    self._threads.release()
                    return False
                time.sleep(POLL_SECONDS)
            except BaseException:
                self._threads.release()
                raise
            else:
                return True

    def release(self) -> None:
        """To be called by who acquired it."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, self._byte)
        self._threads.release()


@cache
def _open_file() -> int:
    path = Path(tempfile.gettempdir()) / f"capuchin-build-{os.getuid()}.lock"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
