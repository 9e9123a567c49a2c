"""Remembers the environment that worked for a repository, for its next runs."""

from __future__ import annotations

import hashlib
from typing import Final

from pipeline.codebase.commit import Codebase
from pipeline.environment.record import TriedAttempt
from pipeline.store import Store
from pipeline.types import Frozen
from sandbox.engine import EnvironmentRequest
from sandbox.environment.recipe import DEPENDENCY_FILES

SETUP_KEY: Final = "environment/setup"


class WorkingAttempt(Frozen):
    """The attempt that served a run."""

    manifests: str
    """The digest of the files that declare what to install; it must match."""
    name: str
    setup: tuple[str, ...] = ()
    """A model's commands; empty if `name` is an attempt of the plan."""
    python: str = ""
    """The Python that those commands want, `3.N`; empty for the default."""


class EnvironmentMemory:
    """The memory of one repository. `store` is the repository's; None saves nothing."""

    def __init__(self, store: Store | None, codebase: Codebase) -> None:
        self._store = store
        self._manifests = digest_of_manifests(codebase)

    async def load(self) -> WorkingAttempt | None:
        """Load the attempt that worked for exactly the same manifests."""
        if self._store is None:
            return None
        found = await self._store.load(f"environment/{self._manifests}", WorkingAttempt)
        return found if found and found.manifests == self._manifests else None

    async def save(self, attempt: TriedAttempt) -> None:
        """Save how `attempt` was made."""
        if self._store is None:
            return
        worked = WorkingAttempt(
            manifests=self._manifests, name=attempt.name, setup=attempt.setup, python=attempt.python
        )
        await self._store.save(f"environment/{self._manifests}", worked)
        if worked.setup:
            await self._store.save(SETUP_KEY, worked)


async def load_working_setup(store: Store) -> WorkingAttempt | None:
    """Load a model's commands that last made the repository's environment work. Untrusted."""
    return await store.load(SETUP_KEY, WorkingAttempt)


def digest_of_manifests(codebase: Codebase) -> str:
    """A digest that changes with every file that declares what to install."""
    known = sorted(
        (path, file.blob)
        for path, file in codebase.files.items()
        if DEPENDENCY_FILES.fullmatch(path)
    )
    return hashlib.sha256(repr(known).encode()).hexdigest()[:32]


def digest_of_request(request: EnvironmentRequest) -> str:
    """A digest that changes with everything that decides what is installed."""
    stated = (tuple(request.setup), request.dockerfile, request.python, request.as_of)
    whole = repr((request.tree.digest, *stated, request.described))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]
