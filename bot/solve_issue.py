"""What happens to one issue, from the label to the pull request or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from bot import comments
from bot.admission import Admitted, Refused, admitted
from bot.checkout import Checkout, Mirrors
from bot.errors import TryLater
from bot.github.app import GitHubApp
from bot.github.errors import GitHubError, GitHubUnavailable
from bot.github.repository import Repository
from bot.issue_text import issue_text
from bot.lease import Lease
from bot.publish import Answer, publish
from bot.remote import Remote
from bot.settings import Settings
from bot.status import Status, closed
from bot.store import RedisStore
from bot.trouble import Ended, judged
from bot.types import Failure, Run, RunStatus, changed
from bot.workshop import Job, Outcome, Workshop
from pipeline.codebase import Codebase
from pipeline.git import GitFailed
from pipeline.types import NoFix, Selection


@dataclass(frozen=True)
class SolveIssue:
    """The worker's work. Every effect asks for the lease, and finds what an earlier start did."""

    settings: Settings
    github: GitHubApp
    mirrors: Mirrors
    workshop: Workshop

    async def __call__(self, run: Run, lease: Lease) -> Run:
        """The run as it ended, its maintainer told.

        Raises:
            TryLater: what it needs does not answer. LeaseLost: another worker goes on.
        """
        try:
            with judged():
                async with self.github.repository(run.repo) as repo:
                    return await self._solved(repo, run, lease)
        except Refused:
            return changed(run, status=RunStatus.REFUSED)
        except Ended as ended:
            failed = changed(lease.run, failure=ended.failure, detail=ended.detail)
            return await self.give_up(failed, lease)

    async def give_up(self, run: Run, lease: Lease) -> Run:
        """Tell the maintainer of `run.failure`, as far as GitHub lets us. Raises as the call."""
        run = changed(run, status=RunStatus.FAILED)
        told = comments.failed(run, run.failure or Failure.INTERNAL, run.detail)
        try:
            async with self.github.repository(run.repo) as repo:
                return await closed(repo, lease, run, told, self.settings.label)
        except GitHubUnavailable as error:
            raise TryLater(Failure.GITHUB_UNAVAILABLE, error.retry_after or 30) from error
        except GitHubError:  # the repository or issue is gone: the record alone says why
            return run

    async def _solved(self, repo: Repository, run: Run, lease: Lease) -> Run:
        may = await admitted(repo, run, lease, self.settings.label)
        status = Status(repo, lease)
        run = await self._begun(repo, run, lease, status)
        remote = Remote(
            f"{self.settings.github_url.rstrip('/')}/{may.facts.full_name}.git", repo.token
        )
        checkout = await self.mirrors.checkout(
            remote, may.facts.full_name, may.facts.default_branch, base=run.base_commit
        )
        run = changed(run, base_commit=checkout.base)
        await lease.save(run)
        try:
            outcome = await self._attempted(repo, run, lease, may, checkout, status)
        except GitFailed:
            await self.mirrors.discard(remote, may.facts.full_name)
            raise
        run = changed(run, dollars=outcome.dollars)
        match outcome.result:
            case Selection() as chosen:
                answer = Answer(run, may.issue.title, chosen, outcome.accounts, may.config.draft)
                return await self._published(repo, answer, checkout, remote, lease)
            case NoFix() as honest:
                run = changed(run, status=RunStatus.NO_FIX, detail=honest.reason)
                told = comments.no_fix(run, honest)
                return await closed(repo, lease, run, told, self.settings.label)

    async def _begun(self, repo: Repository, run: Run, lease: Lease, status: Status) -> Run:
        await lease.require()
        await repo.issues.react(run.issue, "eyes")
        comment = await status.write(run, comments.started(run))
        run = changed(run, comment_id=comment)
        await lease.save(run)
        return run

    async def _attempted(
        self,
        repo: Repository,
        run: Run,
        lease: Lease,
        may: Admitted,
        checkout: Checkout,
        status: Status,
    ) -> Outcome:
        said = [comment async for comment in repo.issues.comments(run.issue)]
        job = Job(
            run_id=run.id,
            issue=issue_text(may.facts.full_name, may.issue, said, repo.identity.login),
            codebase=await Codebase.open(checkout.git_dir, checkout.base),
            options=may.config.options(),
            setup=may.config.setup,
        )
        async with status.shown(run):
            return await self.workshop.solve(
                job,
                RedisStore.of(lease),
                steps=lease.steps,
                say=lambda doing: status.say(comments.working(run, doing)),
            )

    async def _published(
        self, repo: Repository, answer: Answer, checkout: Checkout, remote: Remote, lease: Lease
    ) -> Run:
        pull = await publish(answer, repo=repo, checkout=checkout, remote=remote, lease=lease)
        run = changed(
            answer.run,
            status=RunStatus.OPENED_PULL_REQUEST,
            pull_request=pull.number,
            pull_request_url=pull.html_url,
        )
        await lease.save(changed(run, status=RunStatus.RUNNING))
        told = comments.opened(run, pull.number)
        return await closed(repo, lease, run, told, self.settings.label)
