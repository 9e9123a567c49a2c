"""The stages of a run, one after the other, in the log and for observers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from structlog.contextvars import bind_contextvars, bound_contextvars

from sandbox.observation import Kind, observe


class Stages:
    """A context manager: the first stage begins with the block, and the last ends with it."""

    def __init__(self, first: str) -> None:
        self._first = first
        self._current = ""
        self._bound = ExitStack()
        self._event = ExitStack()

    def __enter__(self) -> Self:
        self._bound.enter_context(bound_contextvars(stage=self._first))
        self.begin(self._first)
        return self

    def begin(self, stage: str) -> None:
        """End the stage before, unless it is this one."""
        bind_contextvars(stage=stage)
        if stage != self._current:
            self._event.close()
            self._current = stage
            self._event.enter_context(observe(Kind.STAGE, stage=stage))

    def __exit__(self, *error: object) -> None:
        self._event.close()
        self._bound.close()
