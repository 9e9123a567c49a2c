"""What an engine can do, wherever its sandboxes are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from sandbox.docker.reaper import Cleaned
from sandbox.execution.session import DockerSandbox
from sandbox.tree import Tree


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

    def open(self, image: str, *, run_id: str) -> AbstractAsyncContextManager[DockerSandbox]: ...

    async def reap(self, *, live_runs: Collection[str], older_than: float = 0) -> int: ...

    async def collect(self, *, max_bytes: int) -> int: ...

    async def clean(self, *, live_runs: Collection[str]) -> Cleaned: ...

    async def close(self) -> None: ...
