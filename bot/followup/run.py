"""Follows up one of our open pull requests: looks at its state now and does what is due."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from bot.admission.check import load_repo_config
from bot.comments import followup
from bot.errors import RunFailed, Superseded, TryLater
from bot.failures import describe_cause, translate_errors
from bot.followup.close import close_if_obsolete
from bot.followup.context import PullRun
from bot.followup.feedback import FeedbackBatch
from bot.followup.ready import mark_ready
from bot.followup.revise import (
    BATCH_KEY,
    address_reviews,
    hand_over,
    is_rebase_unfinished,
    mark_answered,
    rebase_on_conflict,
    report_stop,
)
from bot.followup.verify import complete_stale_check, verify_evidence
from bot.git.mirrors import Checkout, Mirrors
from bot.github.app import GitHubApp
from bot.github.errors import GitHubError, GitHubUnavailable
from bot.github.repository import Repository
from bot.repo_config.model import RepoConfig
from bot.runner.runner import PipelineRunner
from bot.runs.finish import RunFinisher, with_spending
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.triggers.labels import LabelSet
from bot.types import Failure, Run, RunStatus, Stop, StopReason, replace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FollowUpRun:
    """The `RunHandler` of our pull requests. Each effect finds what an earlier start did."""

    settings: Settings
    github: GitHubApp
    mirrors: Mirrors
    runner: PipelineRunner

    async def handle(self, run: Run, lease: Lease) -> Run:
        """See `RunHandler.handle`."""
        try:
            with translate_errors():
                async with self.github.open_repository(run.repo, about=run.issue) as repo:
                    await self._follow_up(repo, run, lease)
        except RunFailed as ended:
            lease.cause = describe_cause(ended)
            failed = replace(lease.run, failure=ended.failure, detail=ended.detail)
            return await self.fail(failed, lease)
        return await with_spending(replace(lease.run, status=RunStatus.FOLLOWED_UP), lease)

    async def fail(self, run: Run, lease: Lease) -> Run:
        """End a run that failed; reports it only where a reviewer waits for an answer."""
        return await self._report_end(run, lease)

    async def stop(self, run: Run, lease: Lease) -> Run:
        """As `fail`; feedback that was written before the stop is not followed any more."""
        return await self._report_end(run, lease)

    async def is_still_valid(self, run: Run, stop: Stop) -> bool:
        """See `RunHandler.is_still_valid`."""
        return await RunFinisher(self.settings, self.github).is_still_valid(run, stop)

    async def _report_end(self, run: Run, lease: Lease) -> Run:
        run = replace(run, status=RunStatus.STOPPED if run.stop else RunStatus.FAILED)
        try:
            async with self.github.open_repository(run.repo, about=run.issue) as repo:
                ctx = await self._load_context(repo, run, lease)
                batch = await lease.checkpoints.load(BATCH_KEY, FeedbackBatch)
                if ctx is not None:
                    await complete_stale_check(ctx, run_ended=True)
                if ctx is not None and run.stop is not None:
                    if run.stop.why is not StopReason.DISABLED or await _is_at_work(ctx, batch):
                        await report_stop(ctx, await with_spending(run, lease))
                elif ctx is not None and batch is not None and run.failure is not None:
                    marker = followup.note_marker("failed", run.id)
                    text = followup.failure_note(run.failure, run.detail, marker)
                    await ctx.comment_once(marker, text)
                    await mark_answered(ctx, batch)
        except GitHubUnavailable as error:
            raise TryLater(Failure.GITHUB_UNAVAILABLE, error.retry_after or 30) from error
        except GitHubError:  # the repository is gone
            await lease.storage.pulls.drop(run.repo, run.issue)
        return await with_spending(run, lease)

    async def _follow_up(self, repo: Repository, run: Run, lease: Lease) -> None:
        ctx = await self._load_context(repo, run, lease)
        if ctx is None:
            return
        await complete_stale_check(ctx)
        if await close_if_obsolete(ctx):
            return
        if not ctx.record.handed_over and not ctx.record.is_ours(ctx.pull.head_sha):
            ctx = await hand_over(ctx)
        tip = await ctx.fetch()
        if ctx.config.follow_up:
            try:
                ctx = await _revise(ctx, tip)
            except Superseded:
                return
        ctx = await verify_evidence(ctx, tip)
        await mark_ready(ctx)

    async def _load_context(self, repo: Repository, run: Run, lease: Lease) -> PullRun | None:
        """None when there is nothing to follow up, or we may not."""
        record = await lease.storage.pulls.get(run.repo, run.issue)
        facts = await repo.get_facts()
        pull = await repo.pulls.get(run.issue)
        config = await load_repo_config(repo)
        if record is None or facts is None or pull is None:
            return None
        opt_out = LabelSet(self.settings.label).find_opt_out(pull.labels)
        if pull.state == "open" and opt_out is not None and run.stop is None:
            return None
        if not isinstance(config, RepoConfig) or not config.enabled:
            return None
        return PullRun(
            lease=lease,
            repo=repo,
            facts=facts,
            pull=pull,
            issue=await repo.issues.get(record.issue),
            record=record,
            config=config,
            settings=self.settings,
            mirrors=self.mirrors,
            runner=self.runner,
        )


async def _is_at_work(ctx: PullRun, batch: FeedbackBatch | None) -> bool:
    """Whether unfinished work must be reported although the opt-out label asks for silence."""
    return (batch is not None and not batch.done) or await is_rebase_unfinished(ctx)


async def _revise(ctx: PullRun, tip: Checkout) -> PullRun:
    if not ctx.record.handed_over and await is_rebase_unfinished(ctx):
        ctx = await rebase_on_conflict(ctx, tip)
    if not ctx.record.handed_over:
        ctx = await address_reviews(ctx)
    return ctx if ctx.record.handed_over else await rebase_on_conflict(ctx, tip)
