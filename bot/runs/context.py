"""Where a run stands once it may begin: what its modes other than a fix are carried out with."""

from __future__ import annotations

from dataclasses import dataclass

from bot.admission.check import Admission
from bot.git.mirrors import Checkout, Mirrors
from bot.git.remote import Remote
from bot.github.repository import Repository
from bot.runner.runner import PipelineRunner
from bot.runner.types import Job
from bot.runs.finish import RunFinisher
from bot.runs.job import build_job
from bot.runs.status_comment import StatusComment
from bot.storage.lease import Lease
from bot.types import Run, RunStatus, replace
from pipeline.codebase.commit import Codebase
from pipeline.types import Issue


@dataclass(frozen=True)
class RunContext:
    """A run that is admitted, its comment begun, its base commit fetched."""

    repo: Repository
    run: Run
    lease: Lease
    admission: Admission
    checkout: Checkout
    remote: Remote
    mirrors: Mirrors
    runner: PipelineRunner
    status: StatusComment
    finisher: RunFinisher

    async def fetch(self, commit: str) -> Checkout:
        """The same mirror with another commit in it. Raises as `Mirrors.checkout`."""
        return await self.mirrors.checkout(
            self.remote, self.admission.facts.full_name, self.checkout.branch, base=commit
        )

    async def build_job(self, issue: Issue) -> Job:
        """What the workshop needs, at the run's base commit."""
        code = await Codebase.open(self.checkout.git_dir, self.checkout.base)
        settings = self.finisher.settings
        return await build_job(
            self.lease, settings, self.admission.config, codebase=code, issue=issue
        )

    async def finish(self, status: RunStatus, text: str, **fields: object) -> Run:
        """The run as it ends with the last word on its issue."""
        run = replace(self.lease.run, status=status, **fields)
        return await self.finisher.finish(self.repo, self.lease, run, text)
