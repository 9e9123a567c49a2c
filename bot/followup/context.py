"""What the steps of a follow-up run work with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from bot.github.models import IssueFacts, PullRequestFacts
from bot.runs.context import RunContext
from bot.storage.pulls import PullRecord
from bot.types import replace


@dataclass(frozen=True)
class PullRun(RunContext):
    """A run on one of our open pull requests."""

    pull: PullRequestFacts
    issue: IssueFacts | None
    """The issue that the pull request fixes; None when it is gone."""
    record: PullRecord

    @property
    def base_branch(self) -> str:
        return self.pull.base_branch

    async def update_record(self, **fields: Any) -> PullRun:
        """Save some fields of the record; the other fields stay as they are in Redis.

        Raises:
            LeaseLost: nothing was written.
        """
        await self.lease.require()
        old, seconds = self.record, self.settings.timings.follow_up_seconds
        kept = await self.lease.storage.pulls.change(old.repo, old.pull, fields, due_in=seconds)
        return dataclasses.replace(self, record=kept or replace(old, **fields))

    async def drop_record(self) -> None:
        """Stop following this pull request up."""
        await self.lease.require()
        await self.lease.storage.pulls.drop(self.record.repo, self.record.pull)

    async def comment_once(self, marker: str, body: str) -> None:
        """Comment on the pull request, unless a comment there holds `marker` already."""
        await self.lease.require()
        await self.repo.issues.comment_once(self.pull.number, marker, body)
