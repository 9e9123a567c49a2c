"""Ends a run without a result: failed, stopped or refused. Reports it and deletes its branch.

A run whose pull request is open by then has a result, and ends as a success.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bot.admission.check import refuse
from bot.comments import status as comments
from bot.comments.refusals import render_refusal
from bot.comments.unpublished import AWAITS_APPROVAL
from bot.data.failure import NO_FACTS, Failure
from bot.data.github_facts import PullRequestFacts
from bot.data.refusal import OptOut, Refusal, Stranger, end_status
from bot.data.run import QuotaLimit, Run, RunStatus, Stop, StopReason
from bot.errors import (
    Forbidden,
    GitHubError,
    GitHubUnavailable,
    NotFound,
    RunFailed,
    TryLater,
    describe_cause,
    to_try_later,
    translate_errors,
)
from bot.github.app import GitHubApp
from bot.github.repository import Repository
from bot.runs.publish import delete_unused_branch, register_pull
from bot.runs.status_comment import StatusComment
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.webhooks.labels import LabelSet
from pipeline.data.types import Selection
from pipeline.models.metering import LEDGER_KEY, Ledger
from pipeline.run_errors import OtherFormat, UnreadableRecord
from pipeline.workflows.outcome import load_end
from sandbox.frozen import replace

MOVED_SECONDS: Final = 1.0
"""Until a run whose repository has moved starts again."""

RenderComment = Callable[[Run], str]


@dataclass(frozen=True)
class RunFinisher:
    """The part of a `RunHandler` that reports ends without a result on the issue.

    Calling a method again finds what an earlier call did.

    Raises:
        TryLater: GitHub does not answer. LeaseLost: another worker has the run.
    """

    settings: Settings
    github: GitHubApp

    async def fail(self, run: Run, lease: Lease) -> Run:
        waits = run.facts.problem == AWAITS_APPROVAL
        run = replace(run, status=RunStatus.NEEDS_CONFIRMATION if waits else RunStatus.FAILED)
        edit = await _load_edit(run, lease)

        def render(run: Run) -> str:
            if edit is not None:
                return comments.render_unpublished(run, edit, self.settings.offered_name)
            return comments.render_failed(run)

        return await self._report_end(run, lease, render)

    async def with_failure(self, failed: RunFailed, lease: Lease) -> Run:
        """The run with why it failed. Raises TryLater: its repository has moved, and the next start
        looks for it there."""
        if await self._find_again(lease.run, lease, failed.failure):
            raise TryLater(failed.failure, MOVED_SECONDS) from failed
        lease.cause = describe_cause(failed)
        return replace(lease.run, failure=failed.failure, facts=failed.facts)

    async def _find_again(self, run: Run, lease: Lease, failure: Failure) -> bool:
        """Whether a repository that seems gone has moved."""
        gone = (Failure.REPOSITORY_GONE, Failure.NOT_INSTALLED, Failure.PUBLISH_REFUSED)
        if failure not in gone:
            return False
        try:
            found = await self.github.find_repository(run.repo.owner, run.repo.name)
        except GitHubError:
            return False
        if found is None or found.id != run.repo.id or found == run.repo:
            return False
        await lease.storage.locations.save(found)
        return True

    async def report_waiting(self, lease: Lease, reason: Failure) -> None:
        """Write into the status comment what the run waits for, if that is not GitHub itself."""
        run = lease.run
        told = (Failure.MODEL_UNAVAILABLE, Failure.SANDBOX_UNAVAILABLE)
        if run.comment_id is None or reason not in told:
            return
        run = await with_spending(run, lease)
        with suppress(GitHubError):
            async with self.github.open_repository(run.repo, about=run.issue) as repo:
                status = StatusComment(repo, lease, self.settings)
                await status.write(run, comments.render_waiting(run, reason))

    async def stop(self, run: Run, lease: Lease) -> Run:
        """Report that `run.stop` ended the run, and what the run cost.

        A run that was not announced ends silently, unless the opt-out label stopped it. A stop
        before the pull request is open deletes the branch; a later one is reported as too late.
        """
        run = replace(run, status=RunStatus.STOPPED)
        if not run.is_announced and run.stop is not None and run.stop.why is StopReason.DISABLED:
            refusal, name = OptOut(run.stop.label), self.settings.offered_name
            return await self._report_end(run, lease, lambda r: render_refusal(r, refusal, name))
        edit, name = await _load_edit(run, lease), self.settings.offered_name
        return await self._report_end(run, lease, lambda r: comments.render_stopped(r, name, edit))

    async def report_refusal(self, run: Run, lease: Lease, refusal: Refusal) -> Run:
        """Report why the run may not work: in its status comment, or in a reply to the person."""
        run = replace(run, status=end_status(refusal))
        text = render_refusal(run, refusal, self.settings.offered_name)
        if text:
            return await self._report_end(run, lease, lambda _: text)
        if isinstance(refusal, Stranger | QuotaLimit):
            with suppress(RunFailed), translate_errors():  # locked or gone: no reply is possible
                async with self.github.open_repository(run.repo, about=run.issue) as repo:
                    await lease.require()
                    refusals = lease.storage.refusals
                    await refuse(
                        refusals, repo, run.issue, run.asked_by, refusal, request_id=run.id
                    )
                    await lease.require()
                    answered = LabelSet(self.settings.label).label_to_remove(run)
                    await repo.issues.remove_label(run.issue, answered)
        return run

    async def is_still_valid(self, run: Run, stop: Stop) -> bool:
        """Whether the reason for the stop still holds: webhooks come late and out of order."""
        try:
            if stop.why is StopReason.NO_ACCESS:
                return await self._is_closed_to_us(run)
            async with self.github.open_repository(run.repo, about=run.issue) as repo:
                issue = await repo.issues.get(run.issue)
        except GitHubUnavailable as error:
            raise to_try_later(error) from error
        except GitHubError:  # the repository is gone, or we may not see it any more
            return True
        if issue is None:
            return True
        if stop.why is StopReason.DISABLED:
            return issue.has_label(LabelSet(self.settings.label).opt_out)
        if stop.why is StopReason.UNLABELED:  # for a closed issue too: the report names the reason
            return run.label != "" and not issue.has_label(run.label)
        return issue.state != "open"

    async def _is_closed_to_us(self, run: Run) -> bool:
        """Whether we may not work in the repository, wherever it is now. Raises GitHubError."""
        found = await self.github.find_repository(run.repo.owner, run.repo.name)
        if found is None or found.id != run.repo.id:
            return True
        async with self.github.open_repository(found) as repo:
            facts = await repo.get_facts()
        return facts is None or facts.archived

    async def _report_end(self, run: Run, lease: Lease, render: RenderComment) -> Run:
        run = await with_spending(run, lease)
        try:
            async with self.github.open_repository(run.repo, about=run.issue) as repo:
                marker = comments.pull_marker(run.id)
                pull = None
                with suppress(Forbidden):  # a run that lacks this permission has opened none
                    pull = await repo.pulls.find(run.branch, marker) if run.branch else None
                if pull is not None:
                    return await self._finish_with_pull(run, repo, lease, pull)
                await delete_unused_branch(run, repo=repo, lease=lease)
                status = StatusComment(repo, lease, self.settings)
                kept_away = run.stop is not None and run.stop.why is StopReason.DISABLED
                if run.status is not RunStatus.STOPPED or run.is_announced or kept_away:
                    return await status.finish(run, render(run))
                # Otherwise the label would start the run again when the issue is reopened.
                if run.stop is not None and run.stop.why in (StopReason.COMMAND, StopReason.CLOSED):
                    await status.remove_label(run)
                return run
        except GitHubUnavailable as error:
            raise to_try_later(error) from error
        except GitHubError:  # the repository or issue is gone: the record alone says why
            return run

    async def _finish_with_pull(
        self, run: Run, repo: Repository, lease: Lease, pull: PullRequestFacts
    ) -> Run:
        run = replace(
            run,
            status=RunStatus.OPENED_PULL_REQUEST,
            failure=None,
            facts=NO_FACTS,
            pull_request=pull.number,
            pull_request_url=pull.html_url,
        )
        await register_pull(lease, pull)
        late = run.stop is not None
        text = (
            comments.render_late_stop(run, pull.number)
            if late
            else comments.render_opened(run, pull.number, draft=pull.draft)
        )
        try:
            return await StatusComment(repo, lease, self.settings).finish(run, text)
        except NotFound:  # the issue is gone, but the pull request is open
            return run


async def _load_edit(run: Run, lease: Lease) -> Selection | None:
    """The edit of a run that broke off, which nobody has yet; None if it has none."""
    try:
        end = await load_end(lease.checkpoints) if run.is_unpublished else None
    except UnreadableRecord:
        return None
    return end if isinstance(end, Selection) else None


async def with_spending(run: Run, lease: Lease) -> Run:
    """`run` with the dollars that its ledger shows by now, if this version can read it."""
    if run.candidate:  # the ledger is that of the run which paid for the edit
        return run
    try:
        spent = await lease.checkpoints.load(LEDGER_KEY, Ledger)
    except OtherFormat:
        return run
    return replace(run, dollars=spent.dollars if spent else run.dollars)
