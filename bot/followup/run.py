"""Looks at the state of one of our pull requests and does what is due."""

import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bot.admission.check import load_repo_config
from bot.admission.trust import is_trusted
from bot.comments.followup import CHECK_NAME, Note, failure_note
from bot.data.run import Run, RunStatus, Stop, StopReason, now
from bot.errors import (
    Forbidden,
    GitHubError,
    GitHubUnavailable,
    NotFound,
    RunFailed,
    Superseded,
    to_try_later,
    translate_errors,
)
from bot.followup.checks import CHECKS_GRACE, load_checks
from bot.followup.feedback import FeedbackBatch, PullRun
from bot.followup.revise import (
    BATCH_KEY,
    UNPUBLISHED_KEY,
    address_reviews,
    find_broken_off,
    is_rebase_unfinished,
    keep_or_hand_over,
    mark_answered,
    rebase_on_conflict,
    report_stop,
)
from bot.followup.verify import complete_stale_check, verify_evidence
from bot.git.mirrors import Checkout, Mirrors
from bot.github.app import GitHubApp
from bot.github.repository import Repository
from bot.repo_config.model import RepoConfig
from bot.runner.runner import PipelineRunner
from bot.runs.finish import RunFinisher, with_spending
from bot.safe_text import code, make_marker
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.webhooks.labels import LabelSet
from pipeline.data.types import Patch
from prompts.text import join_names, pluralize
from sandbox.frozen import replace


async def close_if_obsolete(ctx: PullRun) -> bool:
    """Close the pull request if nobody needs it; returns whether its follow-up is over."""
    if ctx.pull.state != "open":
        await _close_fixed_issue(ctx)
        await _delete_own_branch(ctx)
        await ctx.drop_record()
        return True
    note = await _closing_note(ctx)
    if not note:
        return False
    await ctx.comment_once(note, make_marker("closed", str(ctx.pull.number)))
    await ctx.lease.require()
    await ctx.repo.pulls.edit(ctx.pull.number, state="closed")
    await _delete_own_branch(ctx)
    await ctx.drop_record()
    return True


async def _close_fixed_issue(ctx: PullRun) -> None:
    """Close the issue of a merged pull request where GitHub does not.

    https://docs.github.com/issues/tracking-your-work-with-issues/using-issues/linking-a-pull-request-to-an-issue
    """
    pull, issue = ctx.pull, ctx.issue
    if issue is None or issue.state != "open" or pull.merged_at is None or not ctx.record.proven:
        return
    if pull.base_branch == ctx.facts.default_branch or not ctx.record.command:
        return
    marker = make_marker("fixed-by", str(pull.number))
    text = Note.CLOSED_BY_US.format(pull=pull.number, branch=code(pull.base_branch, 100))
    await ctx.lease.require()
    with suppress(Forbidden, NotFound):  # it is locked or gone
        await ctx.repo.issues.comment_once(issue.number, marker, f"{text}\n\n{marker}\n")
        await ctx.repo.issues.close(issue.number)


async def _closing_note(ctx: PullRun) -> str:
    """The closing comment; empty while the pull request is needed.

    A reporter may close the issue, and does not thereby decide about a pull request.
    """
    issue, trust = ctx.issue, ctx.config.trust
    closer = issue.closer if issue is not None and issue.state != "open" else None
    if closer is not None and await is_trusted(ctx.repo, closer, trust):
        return Note.ISSUE_CLOSED.format(issue=ctx.record.issue)
    touched = ctx.pull.updated_at
    waits = ctx.record.ready_when_green and ctx.pull.draft  # nobody was asked to look yet
    if not waits and touched is not None and now() - touched > STALE_AFTER:
        return Note.STALE.format(days=pluralize(STALE_AFTER.days, "day"))
    return ""


async def _delete_own_branch(ctx: PullRun) -> None:
    """Delete the branch if we closed the pull request and nobody pushed to it."""
    marker = make_marker("closed", str(ctx.pull.number))
    if await ctx.repo.issues.find_comment(ctx.pull.number, marker) is None:
        return
    head = await ctx.repo.get_branch_head(ctx.record.branch)
    if head is None or not ctx.record.is_ours(head):
        return
    await ctx.lease.require()
    with suppress(Forbidden, NotFound):  # we may not, or it is gone
        await ctx.repo.delete_branch(ctx.record.branch)


async def update_draft(ctx: PullRun) -> PullRun:
    """End the draft state if it was to last until the checks pass; back, when one fails later."""
    record, pull = ctx.record, ctx.pull
    if record.ready_when_green and not pull.draft:  # a person was faster
        return await ctx.update_record(ready_when_green=False)
    if not (record.ready_when_green or (record.readied and not pull.draft)):
        return ctx
    checks = await load_checks(ctx.repo, pull.head_sha, ctx.config.ignored_checks)
    opened = pull.created_at or now()
    if record.required_at != pull.head_sha:
        required = await ctx.repo.checks.list_required(pull.base_branch)
        ctx = await ctx.update_record(required_checks=required, required_at=pull.head_sha)
    if required := {*ctx.record.required_checks} - {CHECK_NAME}:
        checks = checks.only(required)
    verdict = checks.verdict(opened)
    waiting = checks.list_waiting() if verdict == "unknown" and pull.draft else []
    if waiting and now() - opened >= CHECKS_GRACE:
        names = join_names([code(name, 100) for name in waiting[:10]])
        text = Note.WAITS_FOR_CHECKS.format(names=names)
        await ctx.comment_once(text, make_marker("waits-for", str(pull.number)))
    try:
        if pull.draft and record.evidence_confirmed and verdict in ("green", "none"):
            return await _mark_ready(ctx, checked=verdict == "green")
        if not pull.draft and verdict == "red":
            await ctx.lease.require()
            await ctx.repo.pulls.convert_to_draft(pull.node_id)
            return await ctx.update_record(ready_when_green=True, readied=False)
    except Forbidden:  # it stays what it is; a person can change it
        pass
    return ctx


async def _mark_ready(ctx: PullRun, *, checked: bool) -> PullRun:
    if not checked:
        await ctx.comment_once(Note.NO_CHECKS, make_marker("no-checks", ctx.pull.head_sha))
    await ctx.lease.require()
    await ctx.repo.pulls.mark_ready(ctx.pull.node_id)
    return await ctx.update_record(ready_when_green=False, readied=True)


logger = logging.getLogger(__name__)

STALE_AFTER: Final = timedelta(days=30)
"""The bot closes its pull request after this time without activity."""


@dataclass(frozen=True)
class FollowUpRun:
    """The `RunHandler` of our pull requests. Each effect finds what an earlier start did."""

    settings: Settings
    github: GitHubApp
    mirrors: Mirrors
    runner: PipelineRunner

    async def handle(self, run: Run, lease: Lease) -> Run:
        try:
            with translate_errors():
                async with self.github.open_repository(run.repo, about=run.issue) as repo:
                    await self._follow_up(repo, run, lease)
        except RunFailed as ended:
            return await self.fail(await self._finisher.with_failure(ended, lease), lease)
        return await with_spending(replace(lease.run, status=RunStatus.FOLLOWED_UP), lease)

    async def is_still_valid(self, run: Run, stop: Stop) -> bool:
        """See `RunHandler.is_still_valid`."""
        return await self._finisher.is_still_valid(run, stop)

    @property
    def _finisher(self) -> RunFinisher:
        return RunFinisher(self.settings, self.github)

    async def fail(self, run: Run, lease: Lease) -> Run:
        """End a run that failed, reported only where a reviewer waits for an answer, or that was
        stopped: feedback from before the stop is not followed any more."""
        run = replace(run, status=RunStatus.STOPPED if run.stop else RunStatus.FAILED)
        try:
            async with self.github.open_repository(run.repo, about=run.issue) as repo:
                if ctx := await self._load_context(repo, run, lease):
                    await _report_end(ctx, run)
        except GitHubUnavailable as error:
            raise to_try_later(error) from error
        except NotFound:  # the repository is gone
            await lease.storage.pulls.drop(run.repo, run.issue)
        except GitHubError:  # we may not, for now
            pass
        return await with_spending(run, lease)

    stop = fail

    async def _follow_up(self, repo: Repository, run: Run, lease: Lease) -> None:
        await repo.check_permissions()
        ctx = await self._load_context(repo, run, lease)
        if ctx is None:
            return
        await complete_stale_check(ctx)
        if await close_if_obsolete(ctx):
            return
        if ctx.record.base_branch != ctx.pull.base_branch:
            ctx = await ctx.update_record(base_branch=ctx.pull.base_branch)
        if not ctx.record.handed_over and not ctx.record.is_ours(ctx.pull.head_sha):
            ctx = await keep_or_hand_over(ctx)
        tip = await ctx.fetch()
        if ctx.config.follows_reviews:
            try:
                ctx = await _revise(ctx, tip)
            except Superseded:
                return
        ctx = await verify_evidence(ctx, tip)
        await update_draft(ctx)

    async def _load_context(self, repo: Repository, run: Run, lease: Lease) -> PullRun | None:
        """None when there is nothing to follow up, or we may not.

        Raises:
            NotFound: the repository is gone.
        """
        record = await lease.storage.pulls.get(run.repo, run.issue)
        facts = await repo.get_facts()
        if facts is None:
            raise NotFound("The repository is gone")
        pull = await repo.pulls.get(run.issue)
        config = await load_repo_config(repo)
        if record is None or pull is None:
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
            adopted=await find_broken_off(lease, record, pull.head_sha),
            config=config,
            settings=self.settings,
            mirrors=self.mirrors,
            runner=self.runner,
        )


async def _report_end(ctx: PullRun, run: Run) -> None:
    """Tell reviewers that the run has failed or was stopped, where they wait for an answer."""
    batch = await ctx.work.load(BATCH_KEY, FeedbackBatch)
    await complete_stale_check(ctx, run_ended=True)
    if run.stop is not None:
        # The opt-out label asks for silence, except about unfinished work.
        speaks = run.stop.why is not StopReason.DISABLED or (batch is not None and not batch.done)
        if speaks or await is_rebase_unfinished(ctx):
            await report_stop(ctx, await with_spending(run, ctx.lease))
    elif batch is not None and run.failure is not None:
        edit = await ctx.work.load(UNPUBLISHED_KEY, Patch)
        text = failure_note(run.failure, run.facts, edit.diff if edit else "")
        await ctx.comment_once(text, make_marker("failed", run.id))
        await mark_answered(ctx, batch)


async def _revise(ctx: PullRun, tip: Checkout) -> PullRun:
    if not ctx.record.handed_over and await is_rebase_unfinished(ctx):
        ctx = await rebase_on_conflict(ctx, tip)
    if not ctx.record.handed_over:
        ctx = await address_reviews(ctx)
    return ctx if ctx.record.handed_over else await rebase_on_conflict(ctx, tip)
