"""What an engine can do, wherever its sandboxes run."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

from sandbox.environment.recipe import Attempt, Installation
from sandbox.execution.session import SandboxSession
from sandbox.program import NO_BUILD, EditBuild
from sandbox.tree import Tree

UNOWNED_SECONDS = 3600
"""Containers that belong to no run stay this long."""

OnProgress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec:
    """What a repository's maintainers say about its environment."""

    setup: Sequence[str] = ()
    """Shell lines for the build container, in place of what the tree's own files suggest."""
    dockerfile: str = ""
    """The path of a Dockerfile in the tree; the steps of the installation run in its image."""
    python: str = ""
    """The Python version, `3.N`."""
    root: str = ""
    """The project's folder in the tree."""
    language: str = ""
    """The name of the project's language."""
    build: Sequence[str] = ()
    """Shell lines that build the project, here and again for each edit, in place of those that its
    language suggests."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables for these lines, and for every program of the sandbox."""


@dataclass(frozen=True)
class EnvironmentRequest(EnvironmentSpec):
    """A checkout to install, and what is known about how to install it."""

    tree: Tree
    image: str = ""
    """A published image with the project installed as SWE-bench's are: an editable package in
    /testbed, perhaps in a conda environment `testbed`. Tried before everything else."""
    scope: str = ""
    """Images are shared only within one scope: the code of one repository could otherwise tamper
    with the environment of another. No stranger may be able to choose it, as by a name."""
    run_id: str = ""
    """The run that the build's containers belong to."""
    as_of: date | None = None
    """The day of the commit, by its committer; None where it is not known."""
    described: str = ""
    """The output of `git describe --tags --long` for the commit; empty without a reachable tag."""


class Engine(Protocol):
    """Prepares environments and opens sandboxes; `DockerEngine` documents each method."""

    async def check(self) -> str: ...

    async def prepare(
        self,
        request: EnvironmentRequest,
        attempt: Attempt,
        *,
        on_progress: OnProgress | None = None,
    ) -> str: ...

    async def read_installation(self, image: str) -> Installation | None: ...

    def open(
        self, image: str, *, run_id: str, build: EditBuild = NO_BUILD
    ) -> AbstractAsyncContextManager[SandboxSession]: ...

    async def reap(self, *, live_runs: Collection[str], older_than: float = 0) -> int: ...

    async def collect(self, *, max_bytes: int) -> int: ...

    async def clean(self, *, live_runs: Collection[str]) -> "CleanupResult": ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class CleanupResult:
    """How much a cleanup removed; pods count as containers."""

    containers: int = 0
    image_bytes: int = 0

    def __add__(self, other: "CleanupResult") -> "CleanupResult":
        return CleanupResult(
            self.containers + other.containers, self.image_bytes + other.image_bytes
        )
