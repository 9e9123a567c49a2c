"""What the workshop needs for any run, of an issue or of a pull request of ours."""

from __future__ import annotations

from bot.budget import DayPurse
from bot.lease import Lease
from bot.repo_config import RepoConfig
from bot.settings import Settings
from bot.workshop import Job
from pipeline.codebase import Codebase
from pipeline.types import Issue


async def job_of(
    lease: Lease, settings: Settings, config: RepoConfig, *, codebase: Codebase, issue: Issue
) -> Job:
    """The job of the run that `lease` is for, under the repository's options and all ceilings."""
    return Job(
        run_id=lease.run.id,
        issue=issue,
        codebase=codebase,
        options=config.options(),
        setup=config.setup,
        purse=await DayPurse.open(lease, settings, config.budget.day),
        dockerfile=config.dockerfile,
        python=config.python,
    )
