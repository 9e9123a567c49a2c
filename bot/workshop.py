"""One attempt at one issue on a checkout: environment, models, pipeline. Knows no GitHub."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot.errors import TryLater
from bot.models import ModelMaker
from bot.settings import Settings, SettingsError
from bot.steps import Steps
from bot.types import Failure
from pipeline.codebase import Codebase
from pipeline.models.metered import Meter
from pipeline.options import Options
from pipeline.solve import Solver
from pipeline.store import Store
from pipeline.types import Account, Issue, NoFix, Selection
from sandbox.base import SandboxUnavailable
from sandbox.docker import DockerEngine
from sandbox.limits import Limits

Say = Callable[[str], None]

_DEBIAN_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_YOUNG_SECONDS = 60
"""A container younger than this may be of a run that began after the active ones were listed."""


@dataclass(frozen=True)
class Job:
    """What is to be solved."""

    run_id: str
    issue: Issue
    codebase: Codebase
    options: Options
    setup: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    result: Selection | NoFix
    accounts: tuple[Account, ...]
    image: str = ""
    """The environment image that everything ran in."""

    @property
    def dollars(self) -> float:
        return sum(account.dollars for account in self.accounts)


class Workshop:
    """Solves jobs with the engine and the models of the settings. One for each process."""

    def __init__(self, settings: Settings, engine: DockerEngine) -> None:
        self.engine = engine
        self._images_mb = settings.sandbox_images_mb
        self._models = ModelMaker(settings)

    async def solve(self, job: Job, store: Store, *, steps: Steps, say: Say) -> Outcome:
        """The pipeline's answer; what `store` holds already is not done again.

        Raises:
            ModelError, SandboxError, GitFailed: see there.
        """

        async def progress(stage: str, detail: str) -> None:  # noqa: ARG001 - the detail says it
            say(detail[:1].upper() + detail[1:] + ".")

        meter = await Meter.open(store, job.options.dollars)
        if not any(path.endswith((".py", ".pyi")) for path in job.codebase.files):
            empty = not job.codebase.files
            return Outcome(
                NoFix(reason="empty repository" if empty else "no source files"), meter.accounts()
            )
        say("Preparing the environment.")
        tree = await job.codebase.tree()
        image = await self.engine.prepare(
            tree,
            setup=job.setup,
            scope=job.issue.repository,
            run_id=job.run_id,
            on_progress=say,
        )
        async with (
            self.engine.open(image, run_id=job.run_id) as sandbox,
            self._models.opened(meter, steps, job.options) as models,
        ):
            solver = Solver(
                models=models,
                sandbox=sandbox,
                codebase=job.codebase,
                store=store,
                options=job.options,
                progress=progress,
            )
            result = await solver.solve(job.issue)
        return Outcome(result, meter.accounts(), image)

    async def clean_up(self, active: list[str]) -> int:
        """Remove the containers of runs that are not active; how many there were.

        Images go too, the least recently used first, until the rest fits into the settings' size.

        Raises:
            TryLater: Docker does not answer.
        """
        try:
            removed = await self.engine.reap(live_runs=active, older_than=_YOUNG_SECONDS)
            await self.engine.collect(max_bytes=self._images_mb * 1_000_000)
        except SandboxUnavailable as error:
            raise TryLater(Failure.SANDBOX_UNAVAILABLE, _YOUNG_SECONDS) from error
        return removed


def trusted_certificates() -> Path | None:
    """The CA bundle that this machine itself trusts, where it has one file for it."""
    ours = ssl.get_default_verify_paths().cafile
    return next((p for p in (Path(ours or _DEBIAN_BUNDLE), _DEBIAN_BUNDLE) if p.is_file()), None)


def engine_of(settings: Settings, *, owner: str = "") -> DockerEngine:
    """The sandbox engine of the settings; connects to nothing yet.

    `owner` marks its containers; without one they are the workers', who reap those of runs that
    are not active.

    Raises:
        SettingsError: the package index's address is none that repositories may see.
    """
    try:
        return DockerEngine(
            limits=Limits(memory_mb=settings.sandbox_memory_mb),
            parallel=settings.sandbox_parallel,
            ca_bundle=settings.build_ca_bundle or trusted_certificates(),
            owner=owner or f"{settings.github_url} {settings.github_app_id}",
            index_url=settings.build_index_url or None,
            docker_url=settings.docker_url or None,
        )
    except ValueError as error:
        raise SettingsError(f"CAPUCHIN_BUILD_INDEX_URL: {error}") from None
