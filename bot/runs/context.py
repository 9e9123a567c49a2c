"""Where a run stands once it may begin: what its modes other than a fix are carried out with."""

from __future__ import annotations

from dataclasses import dataclass

from bot.admission.check import Admitted
from bot.git.mirrors import Checkout, Mirrors
from bot.git.remote import Remote
from bot.github.repository import Repository
from bot.runner.runner import Workshop
from bot.runner.types import Job
from bot.runs.finish import Ending
from bot.runs.job import job_of
from bot.runs.status_comment import Status
from bot.storage.lease import Lease
from bot.types import Run, RunStatus, changed
from pipeline.codebase.commit import Codebase
from pipeline.types import Issue


@dataclass(frozen=True)
class Scene:
    """A run that is admitted, its comment begun, its base commit fetched."""

    repo: Repository
    run: Run
    lease: Lease
    may: Admitted
    checkout: Checkout
    remote: Remote
    mirrors: Mirrors
    workshop: Workshop
    status: Status
    ending: Ending

    async def fetched(self, commit: str) -> Checkout:
        """The same mirror with another commit in it. Raises as `Mirrors.checkout`."""
        return await self.mirrors.checkout(
            self.remote, self.may.facts.full_name, self.checkout.branch, base=commit
        )

    async def job(self, issue: Issue) -> Job:
        """What the workshop needs, at the run's base commit."""
        code = await Codebase.open(self.checkout.git_dir, self.checkout.base)
        settings = self.ending.settings
        return await job_of(self.lease, settings, self.may.config, codebase=code, issue=issue)

    async def closed(self, status: RunStatus, told: str, **fields: object) -> Run:
        """The run as it ends with the last word on its issue."""
        run = changed(self.lease.run, status=status, **fields)
        return await self.ending.closed(self.repo, self.lease, run, told)
