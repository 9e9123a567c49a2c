"""A lock between all threads and processes of one user on one machine that build the same image."""

import hashlib
import os
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sandbox.execution.cancellation import Stopped


@contextmanager
def hold_build_lock(name: str, stop: threading.Event | None = None) -> Generator[None]:
    """Wait for the lock, however long that takes. It is free again when its process ends.

    Raises:
        Stopped: `stop` was set while another build held it.
    """
    # No more than 256 files, as they are never removed. Builds that share one only wait.
    digest = hashlib.sha256(name.encode()).hexdigest()[:2]
    path = Path(tempfile.gettempdir()) / f"capuchin-build-{os.getuid()}-{digest}.lock"
    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(poll_interval=0.1, cancel_check=stop.is_set if stop else None)
    except Timeout:
        raise Stopped from None
    try:
        yield
    finally:
        lock.release()
