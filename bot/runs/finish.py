"""Ends a run without a result: failed, stopped or refused. Reports it and deletes its branch.

A run whose pull request is open by then has a result, and ends as a success.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from bot.admission.check import is_announced
from bot.comments import replies
from bot.comments import status as comments
from bot.data.github_facts import PullRequestFacts
from bot.data.run import Failure, Run, RunStatus, Stop, StopReason
from bot.errors import GitHubError, GitHubUnavailable, NotFound, RunRefused, TryLater
from bot.github.app import GitHubApp
from bot.github.repository import Repository
from bot.runs.publish import delete_unused_branch, register_pull
from bot.runs.status_comment import StatusComment, finish_status, remove_run_label
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.webhooks.labels import LabelSet
from pipeline.models.metering import LEDGER_KEY, Ledger
from pipeline.run_errors import OtherFormat
from sandbox.frozen import replace

RenderComment = Callable[[Run], str]


_UNTOLD = (Failure.GITHUB_UNAVAILABLE, Failure.WRITES_SPENT, Failure.INTERNAL)
"""What a run may wait for that its status comment cannot say."""


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
        """Report `run.failure` on the issue, as far as GitHub permits."""
        run = replace(run, status=RunStatus.FAILED)
        return await self._report_end(
            run, lease, lambda r: comments.render_failed(r, r.failure or Failure.INTERNAL, r.detail)
        )

    async def report_waiting(self, lease: Lease, reason: Failure) -> None:
        """Write into the status comment what the run waits for, if that is not GitHub itself."""
        run = lease.run
        if run.comment_id is None or reason in _UNTOLD:
            return
        run = await with_spending(run, lease)
        with suppress(GitHubError):
            async with self.github.open_repository(run.repo, about=run.issue) as repo:
                status = StatusComment(repo, lease, every=self.settings.timings.status_seconds)
                await status.write(run, comments.render_waiting(run, reason))

    async def stop(self, run: Run, lease: Lease) -> Run:
        """Report that `run.stop` ended the run, and what the run cost.

        A run that was not announced ends silently, unless the opt-out label stopped it. A stop
        before the pull request is open deletes the branch; a later one is reported as too late.
        """
        run = replace(run, status=RunStatus.STOPPED)
        if not is_announced(run) and run.stop is not None and run.stop.why is StopReason.DISABLED:
            label = run.stop.label
            return await self._report_end(run, lease, lambda r: replies.render_opted_out(r, label))
        return await self._report_end(run, lease, comments.render_stopped)

    async def report_refusal(self, run: Run, lease: Lease, refused: RunRefused) -> Run:
        """Report why the run may not work, unless a refusal was posted already."""
        run = replace(run, status=refused.status)
        if not refused.comment:
            return run
        return await self._report_end(run, lease, lambda _: refused.comment)

    async def is_still_valid(self, run: Run, stop: Stop) -> bool:
        """Whether the reason for the stop still holds: webhooks come late and out of order."""
        try:
            async with self.github.open_repository(run.repo, about=run.issue) as repo:
                issue = await repo.issues.get(run.issue)
        except GitHubUnavailable as error:
            raise TryLater(Failure.GITHUB_UNAVAILABLE, error.retry_after or 30) from error
        except GitHubError:  # the repository is gone, or we may not see it any more
            return True
        if issue is None:
            return True
        if stop.why is StopReason.DISABLED:
            return issue.has_label(LabelSet(self.settings.label).opt_out)
        if stop.why is StopReason.UNLABELED:  # for a closed issue too: the report names the reason
            return run.label != "" and not issue.has_label(run.label)
        return issue.state != "open"

    async def finish(self, repo: Repository, lease: Lease, run: Run, text: str) -> Run:
        """Write the final status comment; returns `run` with it. See `finish_status`."""
        return await finish_status(repo, lease, run, text, self.settings)

    async def _report_end(self, run: Run, lease: Lease, render: RenderComment) -> Run:
        run = await with_spending(run, lease)
        try:
            async with self.github.open_repository(run.repo, about=run.issue) as repo:
                pull = await _find_pull(run, repo)
                if pull is not None:
                    return await self._finish_with_pull(run, repo, lease, pull)
                await delete_unused_branch(run, repo=repo, lease=lease)
                if _is_silent(run):
                    await self._remove_label(run, repo, lease)
                    return run
                return await self.finish(repo, lease, run, render(run))
        except GitHubUnavailable as error:
            raise TryLater(Failure.GITHUB_UNAVAILABLE, error.retry_after or 30) from error
        except GitHubError:  # the repository or issue is gone: the record alone says why
            return run

    async def _remove_label(self, run: Run, repo: Repository, lease: Lease) -> None:
        """Otherwise the label would start the run again when the issue is reopened."""
        if run.stop is not None and run.stop.why in (StopReason.COMMAND, StopReason.CLOSED):
            await remove_run_label(repo, lease, run, label=self.settings.label)

    async def _finish_with_pull(
        self, run: Run, repo: Repository, lease: Lease, pull: PullRequestFacts
    ) -> Run:
        run = replace(
            run,
            status=RunStatus.OPENED_PULL_REQUEST,
            failure=None,
            detail="",
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
            return await self.finish(repo, lease, run, text)
        except NotFound:  # the issue is gone, but the pull request is open
            return run


async def with_spending(run: Run, lease: Lease) -> Run:
    """`run` with the dollars that its ledger shows by now, if this version can read it."""
    try:
        spent = await lease.checkpoints.load(LEDGER_KEY, Ledger)
    except OtherFormat:
        return run
    return replace(run, dollars=spent.dollars if spent else run.dollars)


async def _find_pull(run: Run, repo: Repository) -> PullRequestFacts | None:
    if not run.branch:
        return None
    return await repo.pulls.find(run.branch, comments.pull_marker(run.id))


def _is_silent(run: Run) -> bool:
    kept_away = run.stop is not None and run.stop.why is StopReason.DISABLED
    return run.status is RunStatus.STOPPED and not is_announced(run) and not kept_away
