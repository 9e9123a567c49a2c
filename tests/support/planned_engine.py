"""An engine whose plan and builds a test decides; what runs in its sandboxes is real."""

import tempfile
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.data.options import Options
from pipeline.environment.check import HealthCheck
from pipeline.environment.health import Health
from pipeline.store import DirStore
from sandbox.engine import CleanupResult, EnvironmentRequest, OnProgress
from sandbox.environment.recipe import Attempt, Installation, Recipe
from sandbox.errors import EnvironmentFailed
from sandbox.execution.session import SandboxSession
from sandbox.program import NO_BUILD, EditBuild
from sandbox.tree import Tree
from tests.support.data.directory_trees import tree_of_directory
from tests.support.data.repositories import make_codebase
from tests.support.fakes import SubprocessSandbox


def tree_of(files: Mapping[str, str]) -> Tree:
    """A tree with these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tree_of_directory(Path(folder))


async def check_health(folder: Path, files: Mapping[str, str]) -> Health:
    """The health of a tree in this process; `folder` is for its repository and what is found."""
    check = HealthCheck(await make_codebase(folder / "repo.git", files), Options())
    return await check.check(SubprocessSandbox(tree_of(files)), DirStore(folder / "image"))


@dataclass
class PlannedEngine:
    """Builds nothing: an attempt, or the lines of `setup`, lead to files that stand for an image.

    What leads nowhere fails as an installation does.
    """

    plans: tuple[str, ...]
    """The names of the attempts, in order."""
    images: Mapping[str, Mapping[str, str]]
    """By the name of an attempt, or by setup lines joined by `;`: the checkout there."""
    only: bool = False
    log: str = ""
    """What a failed installation printed."""
    problem: str = ""
    """The sentence about a failed installation."""
    summary: str = "Attempt {}."
    """Of an attempt, by its name."""
    as_of: str = ""
    """The day that the installer records."""
    cut: str = ""
    built: list[str] = field(default_factory=list[str])
    opened: list[str] = field(default_factory=list[str])
    pythons: list[str] = field(default_factory=list[str])

    async def plan(self, request: EnvironmentRequest) -> tuple[Attempt, ...]:
        recipe = Recipe(())
        return tuple(Attempt(n, self.summary.format(n), recipe, self.only) for n in self.plans)

    async def prepare(
        self,
        request: EnvironmentRequest,
        attempt: Attempt,
        *,
        on_progress: OnProgress | None = None,
    ) -> str:
        name = ";".join(request.setup) or attempt.name
        self.built.append(name)
        self.pythons.append(request.python)
        if name not in self.images:
            raise EnvironmentFailed(
                self.problem or f"{name} fails.",
                command=f"install {name}",
                log=self.log or f"log {name}",
            )
        return name

    async def read_installation(self, image: str) -> Installation | None:
        return Installation(
            attempt=image,
            as_of=self.as_of,
            cut=self.cut,
            later={"six": "2023-09-01"},
            version="1.2",
            distributions=("pytest==5.4", "../evil"),
        )

    @asynccontextmanager
    async def open(
        self, image: str, *, run_id: str, build: EditBuild = NO_BUILD
    ) -> AsyncGenerator[SandboxSession]:
        self.opened.append(image)
        yield SubprocessSandbox(tree_of(self.images[image]))  # pyright: ignore[reportReturnType] - it does what a session does

    async def check(self) -> str:
        return ""

    async def reap(self, *, live_runs: Collection[str], older_than: float = 0) -> int:
        return 0

    async def collect(self, *, max_bytes: int) -> int:
        return 0

    async def clean(self, *, live_runs: Collection[str]) -> CleanupResult:
        return CleanupResult()

    async def close(self) -> None:
        return
