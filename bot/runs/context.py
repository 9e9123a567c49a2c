"""What the steps of one run work with."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from typing import Final

from bot.admission.issue_text import quote_comment
from bot.admission.trust import CommentFilter
from bot.data.github_facts import IssueFacts, RepositoryFacts
from bot.data.job import Job
from bot.data.progress import ProgressTracker, range_of_costs, range_of_durations
from bot.data.run import Run, now
from bot.errors import GitHubError
from bot.git.mirrors import Checkout, Mirrors, Remote
from bot.github.repository import Repository
from bot.outcomes import load_recalibration
from bot.repo_config.model import RepoConfig
from bot.runner.runner import PipelineRunner
from bot.runs.references import References
from bot.runs.status_comment import StatusComment
from bot.settings import Settings
from bot.storage.checkpoints import RedisStore
from bot.storage.day_budget import DayBudget
from bot.storage.history import HISTORY_DAYS
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from bot.webhooks.labels import BotNames
from pipeline.codebase.commit import Codebase
from pipeline.data.options import Recalibration
from pipeline.data.progress import OnProgress
from pipeline.data.types import CommitSha, Issue
from pipeline.languages.registry import main_language
from sandbox.frozen import Frozen, replace

_RECALIBRATION_KEY: Final = "recalibration"
ABSENT_KEY: Final = "absent"


class Absent(Frozen):
    """What the commit of a run refers to and its sandbox lacked."""

    paths: tuple[str, ...] = ()


class _SavedRecalibration(Frozen):
    recalibration: Recalibration | None
    language: str = ""
    """That of the repository, if the confidence was not fitted on edits in it."""


@dataclass(frozen=True)
class RunContext:
    """A run that may work, and everything that its steps need.

    Each step renews the lease before an effect, and finds what an earlier try of it did.
    """

    lease: Lease
    repo: Repository
    facts: RepositoryFacts
    config: RepoConfig
    settings: Settings
    mirrors: Mirrors
    runner: PipelineRunner

    @property
    def run(self) -> Run:
        return self.lease.run

    @property
    def store(self) -> RedisStore:
        return self.lease.checkpoints

    @property
    def storage(self) -> Storage:
        """All records; a command waits while Redis does not answer, until the lease is lost."""
        return self.lease.storage

    @property
    def remote(self) -> Remote:
        remote = Remote.on_github(
            self.settings.github_url, self.facts.full_name, self.repo.get_token
        )
        return dataclasses.replace(remote, on_limited=self.repo.note_limit)

    @property
    def base_branch(self) -> str:
        return self.config.base_branch or self.facts.default_branch

    async def fetch(self, commit: CommitSha | None = None) -> Checkout:
        """Fetch a commit, or the head of the base branch, with all its files.

        Raises:
            RepositoryGone, RepositoryEmpty, GitHubUnavailable, GitFailed: see `Mirrors.checkout`.
        """
        return await self.mirrors.checkout(
            self.remote, self.facts.full_name, self.base_branch, base=commit
        )

    async def build_job(self, codebase: Codebase, issue: Issue) -> Job:
        config = self.config
        fetch = References(
            self.mirrors, self.remote, self.repo, self.run.asked_by, self.settings.github_url
        ).fetch
        codebase = await fetch(codebase, self.facts.full_name)
        await self.store.save(ABSENT_KEY, Absent(paths=tuple(await codebase.list_absent())))
        return Job(
            run_id=self.run.id,
            issue=issue,
            codebase=await asyncio.to_thread(config.aim, codebase, issue),
            options=config.options(),
            scope=f"{self.settings.github_url} {self.run.repo.installation} {self.run.repo.id}",
            environment=config.environment(),
            shared_budget=await DayBudget.open(self.lease, self.settings, config.budget.day),
            environment_store=self.lease.open_environment,
            repository_store=self.lease.open_repository(),
            billable=self.lease.in_flight.billable,
            describe=partial(
                self.mirrors.describe, self.remote, self.facts.full_name, codebase.commit
            ),
        )


@dataclass(frozen=True)
class IssueRun(RunContext):
    """A run on an issue, which `check_admission` let begin."""

    issue: IssueFacts

    @cached_property
    def status(self) -> StatusComment:
        return StatusComment(self.repo, self.lease, self.settings)

    @property
    def checkout(self) -> Checkout:
        assert self.run.base_commit, "begin_run comes first"
        git_dir = self.mirrors.path_of(self.remote, self.facts.full_name)
        return Checkout(git_dir, self.run.base_commit, self.base_branch)

    async def build_job(self, codebase: Codebase, issue: Issue) -> Job:
        """As for any run; the confidence is corrected by the repository's own history."""
        job = await super().build_job(codebase, issue)
        facts = main_language(job.codebase).facts
        saved = await self._load_recalibration("" if facts.calibrated else facts.name)
        options = replace(job.options, recalibration=saved.recalibration)
        if self.run.more:
            options = replace(options, samples=self.run.more, adaptive=False)
        return dataclasses.replace(job, options=options, listen=self._listen)

    @cached_property
    def _filter(self) -> CommentFilter:
        return CommentFilter(self.repo, self.issue, self.config, self.run.asked_at)

    async def _listen(self) -> list[str]:
        """What trusted people have said on the issue since the run began, but for commands.

        Empty while GitHub does not answer: the run goes on with what it has read.
        """
        began = self.run.started_at
        names = BotNames.of(self.settings).with_slug(self.repo.identity.slug).called
        said: list[str] = []
        with suppress(GitHubError):
            async for comment in self.repo.issues.list_comments(self.run.issue, since=began):
                if await self._filter.hears(comment, began, names):
                    shown = await asyncio.to_thread(quote_comment, comment)
                    said += [shown] if shown else []
        return said

    async def load_language(self) -> str:
        """The repository's language; empty if the confidence was fitted on edits in it."""
        saved = await self.store.load(_RECALIBRATION_KEY, _SavedRecalibration)
        return saved.language if saved else ""

    async def _load_recalibration(self, language: str) -> _SavedRecalibration:
        """The correction of the confidence that the run's first worker found; the next ones use the
        same."""
        saved = await self.store.load(_RECALIBRATION_KEY, _SavedRecalibration)
        if saved is None:
            found = await load_recalibration(self.repo, self.storage.history, language)
            saved = _SavedRecalibration(recalibration=found, language=language)
            await self.store.save(_RECALIBRATION_KEY, saved)
        return saved

    async def open_codebase(self) -> Codebase:
        return await Codebase.open(self.checkout.git_dir, self.checkout.base)

    @asynccontextmanager
    async def show_progress(self) -> AsyncGenerator[OnProgress]:
        """During the block, the status comment shows the reported events."""
        before = await self.storage.progress.load(self.run.id)
        expected = range_of_durations(await self.storage.runs.list_durations())
        known = replace(before, expected=expected, costs=await self.find_costs())
        tracker = ProgressTracker(self.status.update, known)
        async with self.status.show_updates(self.run):
            yield tracker.report

    async def find_costs(self) -> tuple[float, float] | None:
        """The quartiles of the dollars that the latest fixes took: those of the repository, else of
        the installation; None where too few have ended."""
        repo, since = self.run.repo, now() - timedelta(days=HISTORY_DAYS)
        here = (await self.storage.history.load(repo, since)).entries
        if found := range_of_costs((one.mode, one.dollars) for one in here):
            return found
        runs = await self.storage.run_queries.list_recent()
        ours = [run for run in runs if run.repo.installation == repo.installation]
        return range_of_costs((run.mode, run.dollars) for run in reversed(ours) if run.status.final)
