"""Environments of instances, to grade edits in."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.cli.display.base import print_progress
from bot.errors import BotError
from bot.runner.runner import PipelineRunner
from bot.runner.types import Job
from bot.settings import Settings
from bot.types import RunId
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed
from pipeline.evaluation.dataset import BadData
from pipeline.evaluation.grading import GradedInstance, Grader
from pipeline.evaluation.recall import find_clone
from pipeline.options import Options
from pipeline.regression.nearby import NearbyTests
from pipeline.store import ScopedStore, Store
from pipeline.types import Issue
from sandbox.errors import EnvironmentFailed

_DIGITS: Final = 16


class CannotTell(BotError):
    """An instance has no environment; the sentence says why. Untrusted."""


@dataclass(frozen=True)
class Workplace:
    """The open environment of one instance's base commit."""

    grader: Grader
    near: NearbyTests
    environment: str
    """How it was made, and how healthy it is. Untrusted."""


class Workplaces:
    """Makes the environments of instances, one after another."""

    def __init__(self, trees: Path, settings: Settings, runner: PipelineRunner) -> None:
        self._trees = trees
        self._runner = runner
        self._images_bytes = settings.sandbox_images_mb * 1_000_000

    @asynccontextmanager
    async def open(self, row: GradedInstance, store: Store) -> AsyncGenerator[Workplace]:
        """The environment of `row`; what ran there is saved in `store`.

        Raises:
            CannotTell: there is no clone or commit, or nothing could be installed.
            SandboxUnavailable: call again to go on.
        """
        tree = await asyncio.to_thread(find_clone, self._trees, row.repo)
        if tree is None:
            raise CannotTell(f"{self._trees} holds no clone of {row.repo}.")
        try:
            codebase = await Codebase.open(tree, row.base_commit)
        except GitFailed:
            raise CannotTell(f"{tree} has no commit {row.base_commit}.") from None
        options = Options()
        job = Job(
            run_id=RunId(f"grade-{digest(row.instance_id)}"),
            issue=Issue(repository=row.repo, title="", body=row.problem_statement),
            codebase=codebase,
            options=options,
        )

        def report(sentence: str) -> None:
            print_progress(f"{row.instance_id}: {sentence}")

        try:
            async with self._runner.open_environment(job, store, report) as environment:
                best = environment.record.best
                tests = ScopedStore(store, environment.image)
                sandbox = environment.sandbox
                yield Workplace(
                    Grader(row, codebase, sandbox, tests, options),
                    NearbyTests(codebase, sandbox, tests, options),
                    best.line() if best else "",
                )
        except EnvironmentFailed as error:
            raise CannotTell(f"No environment: {error}") from error

    async def evict_images(self) -> None:
        """Keep the images within the settings' ceiling."""
        await self._runner.engine.collect(max_bytes=self._images_bytes)


def check_trees(trees: Path) -> None:
    """Raises BadData: `trees` is no folder."""
    if not trees.is_dir():
        raise BadData(f"{trees} is not a directory: give a folder of bare clones.")


def digest(*parts: str) -> str:
    """A short name for `parts`."""
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:_DIGITS]
