"""What happens to one issue, from the label to the pull request or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from bot import comments, config_file
from bot.attempt import Outcome, Workshop
from bot.checkout import Mirrors
from bot.github.app import GitHubApp
from bot.github.errors import GitHubError
from bot.github.facts import IssueFacts, RepositoryFacts
from bot.github.issues import Reaction
from bot.github.repository import Repository
from bot.issue_text import issue_text
from bot.lease import Lease
from bot.publish import Answer, publish
from bot.remote import Remote
from bot.repo_config import ConfigProblem, RepoConfig
from bot.settings import Settings
from bot.status import Status
from bot.store import RedisStore
from bot.trouble import Ended, judged
from bot.types import Failure, Run, RunStatus, now
from pipeline.types import NoFix, Selection

MAY_ASK = frozenset({"admin", "maintain", "write"})
REFUSAL_PAUSE = timedelta(days=1)
"""One refusal a day and person: a label put on again and again starts no thread."""


@dataclass(frozen=True)
class SolveIssue:
    """The worker's work. Effects need the lease and find what an earlier start already did."""

    settings: Settings
    github: GitHubApp
    mirrors: Mirrors
    workshop: Workshop

    async def __call__(self, run: Run, lease: Lease) -> Run:
        """The run as it ended. Raises TryLater for what passes by itself, LeaseLost."""
        try:
            with judged():
                async with self.github.repository(run.repo) as repo:
                    return await self._solved(repo, lease)
        except Ended as ended:
            return await self.give_up(lease.run, lease, ended.failure, ended.detail)

    async def give_up(self, run: Run, lease: Lease, failure: Failure, detail: str = "") -> Run:
        """Tell the maintainer why there is no answer, as far as GitHub lets us; the run ended."""
        over = ended(run, RunStatus.FAILED, failure=failure, detail=detail)
        try:
            async with self.github.repository(run.repo) as repo:
                told = comments.failed(over, failure, detail)
                return await self._closed(repo, over, lease, told, "confused")
        except GitHubError:  # gone, or silent: the record says it
            return over

    async def _solved(self, repo: Repository, lease: Lease) -> Run:
        run = lease.run
        facts = await repo.facts()
        if facts is None:
            raise Ended(Failure.REPOSITORY_GONE)
        if await repo.permission(run.asked_by) not in MAY_ASK:
            return await self._refused(repo, run, lease)
        issue = await self._open_issue(repo, run)
        config = await self._config(repo)
        if not config.enabled:
            return ended(run, RunStatus.REFUSED)
        run = await self._begun(repo, run, lease)
        remote = Remote(f"{self.settings.github_url.rstrip('/')}/{facts.full_name}.git", repo.token)
        checkout = await self.mirrors.checkout(
            remote, facts.full_name, facts.default_branch, base=run.base_commit
        )
        run = run.model_copy(update={"base_commit": checkout.base})
        await lease.save(run)
        outcome = await self._attempted(repo, lease, facts, issue, config, checkout)
        ...
