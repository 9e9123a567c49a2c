"""Imports of large packages, without a garbage collector that looks through what they make."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def pause_collection() -> Generator[None]:
    """Around imports: classes and functions stay until the process ends, and none is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
