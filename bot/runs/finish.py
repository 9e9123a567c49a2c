"""How a run ends that comes to no answer: failed, stopped or refused; told, and nothing half made.

A pull request that is open by then is an answer, whatever came after it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from bot.admission.check import begun
from bot.comments import replies
from bot.comments import status as comments
from bot.errors import Refused, TryLater
from bot.github.app import GitHubApp
from bot.github.errors import GitHubError, GitHubUnavailable, NotFound
from bot.github.models import PullRequestFacts
from bot.github.repository import Repository
from bot.publish.publish import withdraw
from bot.runs.register_pull import keep
from bot.runs.status_comment import Status, label_off
from bot.runs.status_comment import closed as last_word
from bot.settings import Settings
from bot.storage.checkpoints import RedisStore
from bot.storage.lease import Lease
from bot.triggers.labels import OPT_OUT
from bot.types import Failure, Run, RunStatus, Stop, StopReason, changed
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger

Told = Callable[[Run], str]


@dataclass(frozen=True)
class Ending:
    """Every effect asks for the lease, and finds what an earlier try did."""

    settings: Settings
    github: GitHubApp

    async def failed(self, run: Run, lease: Lease) -> Run:
        """Tell the maintainer of `run.failure`, as far as GitHub lets us.

        Raises:
            TryLater: GitHub does not answer. LeaseLost: another worker goes on.
        """
        run = changed(run, status=RunStatus.FAILED)
        return await self._over(
            run, lease, lambda r: comments.failed(r, r.failure or Failure.INTERNAL, r.detail)
        )

    async def waits(self, lease: Lease, reason: Failure) -> None:
        """Say on the issue what a run waits for that had begun; GitHub's own silence cannot be.

        Raises:
            LeaseLost: another worker goes on.
        """
        run = lease.run
        if run.comment_id is None or reason in (Failure.GITHUB_UNAVAILABLE, Failure.INTERNAL):
            return
        run = await _with_spending(run, lease)
        with suppress(GitHubError):
            async with self.github.repository(run.repo) as repo:
                status = Status(repo, lease, every=self.settings.status_seconds)
                await status.begin(run, comments.waiting(run, reason))

    async def stopped(self, run: Run, lease: Lease) -> Run:
        """Tell who set `run.stop` that it is over and what it cost. Raises as `failed`.

        A run that nobody was told of ends without a word, unless it is a label that keeps us
        away. Until the pull request is open a stop takes back what was pushed; after that it comes
        too late, and is told so.
        """
        run = changed(run, status=RunStatus.STOPPED)
        if not begun(run) and run.stop is not None and run.stop.why is StopReason.DISABLED:
            label = run.stop.label
            return await self._over(run, lease, lambda r: replies.opted_out(r, label))
        return await self._over(run, lease, comments.stopped)

    async def refused(self, run: Run, lease: Lease, refused: Refused) -> Run:
        """Raises as `failed`."""
        run = changed(run, status=refused.status)
        if not refused.told:
            return run
        return await self._over(run, lease, lambda _: refused.told)

    async def holds(self, run: Run, stop: Stop) -> bool:
        """Whether the issue is still as the hint says: webhooks come late and out of order.

        Raises:
            TryLater: GitHub does not answer; until it does the run had better spend nothing.
        """
        try:
            async with self.github.repository(run.repo) as repo:
                issue = await repo.issues.get(run.issue)
        except GitHubUnavailable as error:
            raise TryLater(Failure.GITHUB_UNAVAILABLE, error.retry_after or 30) from error
        except GitHubError:  # the repository is gone, or we may not see it any more
            return True
        if issue is None:
            return True
        if stop.why is StopReason.DISABLED:
            return issue.wears(self.settings.label + OPT_OUT)
        if stop.why is StopReason.UNLABELED:  # also of a closed issue: people are told why
            return run.label != "" and not issue.wears(run.label)
        return issue.state != "open"

    async def closed(self, repo: Repository, lease: Lease, run: Run, told: str) -> Run:
        """The last word on the issue; see `bot.runs.status_comment.closed`."""
        settings = self.settings
        return await last_word(
            repo, lease, run, told, label=settings.label, every=settings.status_seconds
        )

    async def _over(self, run: Run, lease: Lease, say: Told) -> Run:
        run = await _with_spending(run, lease)
        try:
            async with self.github.repository(run.repo) as repo:
                pull = await _opened(run, repo)
                if pull is not None:
                    return await self._answered(run, repo, lease, pull)
                await withdraw(run, repo=repo, lease=lease)
                if _silent(run):
                    await self._label_off(run, repo, lease)
                    return run
                return await self.closed(repo, lease, run, say(run))
        except GitHubUnavailable as error:
            raise TryLater(Failure.GITHUB_UNAVAILABLE, error.retry_after or 30) from error
        except GitHubError:  # the repository or issue is gone: the record alone says why
            return run

    async def _label_off(self, run: Run, repo: Repository, lease: Lease) -> None:
        """It asks for what was just stopped, also when the issue is opened again."""
        if run.stop is not None and run.stop.why in (StopReason.COMMAND, StopReason.CLOSED):
            await label_off(repo, lease, run, label=self.settings.label)

    async def _answered(
        self, run: Run, repo: Repository, lease: Lease, pull: PullRequestFacts
    ) -> Run:
        run = changed(
            run,
            status=RunStatus.OPENED_PULL_REQUEST,
            failure=None,
            detail="",
            pull_request=pull.number,
            pull_request_url=pull.html_url,
        )
        await keep(lease, pull)
        late = run.stop is not None
        told = (
            comments.stop_came_late(run, pull.number)
            if late
            else comments.opened(run, pull.number, draft=pull.draft)
        )
        try:
            return await self.closed(repo, lease, run, told)
        except NotFound:  # the issue is gone, and the pull request is there all the same
            return run


async def _with_spending(run: Run, lease: Lease) -> Run:
    spent = await RedisStore.of(lease).load(LEDGER_KEY, Ledger)
    return changed(run, dollars=spent.dollars if spent else run.dollars)


async def _opened(run: Run, repo: Repository) -> PullRequestFacts | None:
    if not run.branch:
        return None
    return await repo.pulls.find(run.branch, comments.request_marker(run.id))


def _silent(run: Run) -> bool:
    kept_away = run.stop is not None and run.stop.why is StopReason.DISABLED
    return run.status is RunStatus.STOPPED and not begun(run) and not kept_away
