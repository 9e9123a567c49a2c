"""What an engine can do, wherever its sandboxes are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from sandbox.execution.session import SandboxSession
from sandbox.tree import Tree

UNOWNED_SECONDS = 3600
"""Containers that work for no run are left alone this long."""


class Engine(Protocol):
    """Prepares environments and opens sandboxes; `DockerEngine` documents each method."""

    async def check(self) -> str: ...

    async def prepare(
        self,
        tree: Tree,
        *,
        setup: Sequence[str] = (),
        dockerfile: str = "",
        python: str = "",
        scope: str = "",
        run_id: str = "",
        on_progress: Callable[[str], None] | None = None,
    ) -> str: ...

    def open(self, image: str, *, run_id: str) -> AbstractAsyncContextManager[SandboxSession]: ...

    async def reap(self, *, live_runs: Collection[str], older_than: float = 0) -> int: ...

    async def collect(self, *, max_bytes: int) -> int: ...

    async def clean(self, *, live_runs: Collection[str]) -> CleanupResult: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class CleanupResult:
    """What is gone."""

    containers: int = 0
    """Or pods."""
    image_bytes: int = 0

    def __add__(self, other: CleanupResult) -> CleanupResult:
        return CleanupResult(
            self.containers + other.containers, self.image_bytes + other.image_bytes
        )
