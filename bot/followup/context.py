"""One pull request that is being looked after, with all that looking after it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bot.git.mirrors import Checkout, Mirrors
from bot.git.remote import Remote
from bot.github.models import IssueFacts, PullRequestFacts, RepositoryFacts
from bot.github.repository import Repository
from bot.repo_config.model import RepoConfig
from bot.runner.runner import PipelineRunner
from bot.runner.types import Job
from bot.runs.job import build_job
from bot.settings import Settings
from bot.storage.checkpoints import RedisStore
from bot.storage.lease import Lease
from bot.storage.pulls import PullRecord
from bot.types import Run
from pipeline.codebase.commit import Codebase
from pipeline.types import Issue


@dataclass(frozen=True)
class PullContext:
    """Every effect asks for the lease first, and finds what an earlier try did."""

    run: Run
    lease: Lease
    repo: Repository
    facts: RepositoryFacts
    pull: PullRequestFacts
    issue: IssueFacts | None
    """What it fixes; None when that is gone."""
    record: PullRecord
    config: RepoConfig
    settings: Settings
    mirrors: Mirrors
    runner: PipelineRunner

    @property
    def store(self) -> RedisStore:
        return self.lease.checkpoints

    @property
    def remote(self) -> Remote:
        root = self.settings.github_url.rstrip("/")
        return Remote(f"{root}/{self.facts.full_name}.git", self.repo.get_token)

    async def fetch(self, commit: str = "") -> Checkout:
        """The base branch's head, or another commit, with all its files."""
        return await self.mirrors.checkout(
            self.remote, self.facts.full_name, self.pull.base_branch, base=commit
        )

    async def update_record(self, **fields: Any) -> PullContext:
        """With some fields of the record replaced, and kept so; what others changed stays.

        Raises:
            LeaseLost: nothing was written.
        """
        await self.lease.require()
        old, seconds = self.record, self.settings.timings.follow_up_seconds
        kept = await self.lease.storage.pulls.change(old.repo, old.pull, fields, due_in=seconds)
        return replace(self, record=kept or old.model_copy(update=fields))

    async def drop_record(self) -> None:
        """No more to be looked after."""
        await self.lease.require()
        await self.lease.storage.pulls.drop(self.record.repo, self.record.pull)

    async def comment_once(self, marker: str, body: str) -> None:
        """A comment in the pull request's conversation that holds `marker`."""
        await self.lease.require()
        await self.repo.issues.comment_once(self.pull.number, marker, body)

    async def build_job(self, codebase: Codebase, issue: Issue) -> Job:
        """What is done in a sandbox that holds `codebase`."""
        return await build_job(
            self.lease, self.settings, self.config, codebase=codebase, issue=issue
        )
