"""What the workshop needs for any run, of an issue or of a pull request of ours."""

from __future__ import annotations

from bot.repo_config.model import RepoConfig
from bot.runner.types import Job
from bot.settings import Settings
from bot.storage.day_budget import DayBudget
from bot.storage.lease import Lease
from pipeline.codebase.commit import Codebase
from pipeline.types import Issue


async def build_job(
    lease: Lease, settings: Settings, config: RepoConfig, *, codebase: Codebase, issue: Issue
) -> Job:
    """The job of the run that `lease` is for, under the repository's options and all ceilings."""
    return Job(
        run_id=lease.run.id,
        issue=issue,
        codebase=codebase,
        options=config.options(),
        setup=config.setup,
        shared_budget=await DayBudget.open(lease, settings, config.budget.day),
        dockerfile=config.dockerfile,
        python=config.python,
        environment_store=lease.open_environment,
    )
