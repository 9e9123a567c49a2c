"""Writes every call to a model or to GitHub into the debug log, without what was sent."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sandbox.observation import Event, Kind

logger = logging.getLogger(__name__)

LOGGED: Final = (Kind.MODEL_CALL, Kind.GITHUB_CALL, Kind.EXECUTION)


@contextmanager
def log_calls(event: Event) -> Generator[None]:
    """An `Observer`."""
    try:
        yield
    finally:
        if event.kind in LOGGED and logger.isEnabledFor(logging.DEBUG):
            facts = " ".join(f"{name}={value}" for name, value in event.facts.items())
            end = f" error={event.error}" if event.error else ""
            logger.debug("%s: %s%s seconds=%.3f", event.kind, facts, end, event.seconds)
