"""What happens to one issue, from the label to the pull request or the reason why there is none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from bot.admission.check import Admitted, admitted
from bot.admission.comment_filter import Listener, as_asked, edited_since
from bot.admission.issue_text import issue_text
from bot.comments import replies
from bot.comments import status as comments
from bot.errors import Ended, Refused, TryLater
from bot.failures import judged
from bot.git.mirrors import Checkout, Mirrors
from bot.git.remote import Remote
from bot.github.app import GitHubApp
from bot.github.errors import Forbidden
from bot.github.repository import Repository
from bot.links import run_page
from bot.publish.prepare import Found, answer_to
from bot.publish.publish import Answer, publish
from bot.runner.runner import Workshop
from bot.runner.types import Outcome, Planned
from bot.runs.context import Scene
from bot.runs.finish import Ending
from bot.runs.judge import judge_pulls
from bot.runs.register_pull import keep, prepare
from bot.runs.status_comment import Status, tidied
from bot.runs.use_candidate import use_candidate
from bot.settings import Settings
from bot.storage.checkpoints import RedisStore
from bot.storage.keys import ISSUE_KEY
from bot.storage.lease import Lease
from bot.storage.progress import WatchedStore
from bot.storage.runs import VERSION_KEY
from bot.types import IssueVersion, Mode, Run, RunStatus, changed
from pipeline.codebase.git import GitFailed
from pipeline.types import Issue, NoFix, Selection


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
                    if run.ends_as is not None:  # a worker died after the last word
                        ended = changed(run, status=run.ends_as)
                        return await tidied(repo, lease, ended, label=self.settings.label)
                    return await self._solved(repo, run, lease)
        except TryLater as later:
            await self.ending.waits(lease, later.reason)
            raise
        except Refused as refused:
            return await self.ending.refused(lease.run, lease, refused)
        except Ended as ended:
            failed = changed(lease.run, failure=ended.failure, detail=ended.detail)
            return await self.give_up(failed, lease)

    async def give_up(self, run: Run, lease: Lease) -> Run:
        """See `Ending.failed`."""
        return await self.ending.failed(run, lease)

    @property
    def ending(self) -> Ending:
        return Ending(self.settings, self.github)

    async def _solved(self, repo: Repository, run: Run, lease: Lease) -> Run:
        if run.pull_request is not None and run.mode is not Mode.USE:  # only to be told of
            pull = await repo.pulls.find(run.branch, comments.request_marker(run.id))
            return await self._told(repo, run, lease, draft=pull is not None and pull.draft)
        may = await admitted(repo, run, lease, self.settings)
        status = Status(repo, lease, every=self.settings.status_seconds)
        run = changed(run, page=run_page(self.settings, run.id), place=0)
        run = await self._begun(repo, run, lease, status)
        remote = Remote(
            f"{self.settings.github_url.rstrip('/')}/{may.facts.full_name}.git", repo.token
        )
        checkout = await self.mirrors.checkout(
            remote, may.facts.full_name, may.facts.default_branch, base=run.base_commit
        )
        run = changed(run, base_commit=checkout.base)
        await lease.save(run)
        scene = Scene(
            repo, run, lease, may, checkout, remote, self.mirrors, self.workshop, status,
            self.ending,
        )  # fmt: skip
        if run.mode is Mode.USE:
            return await use_candidate(scene)
        issue = await self._issue(repo, run, lease, may)
        if run.mode is Mode.JUDGE:
            return await judge_pulls(scene, issue)
        run = lease.run
        try:
            outcome = await self._attempted(issue, scene)
        except GitFailed:
            await self.mirrors.discard(remote, may.facts.full_name)
            raise
        run = changed(run, dollars=outcome.dollars)
        await lease.save(run)
        if isinstance(outcome, Planned):
            run = changed(run, status=RunStatus.PLANNED)
            told = replies.planned(run, outcome.plan)
            return await self.ending.closed(repo, lease, run, told)
        match outcome.result:
            case Selection() as chosen:
                found = Found(issue, chosen, outcome.accounts, outcome.sent_to)
                answer = await answer_to(found, repo, checkout, lease, may, self.settings)
                return await self._published(repo, answer, checkout, remote, lease)
            case NoFix() as honest:
                run = changed(run, status=RunStatus.NO_FIX, detail=honest.reason)
                told = comments.no_fix(run, honest)
                return await self.ending.closed(repo, lease, run, told)

    async def _begun(self, repo: Repository, run: Run, lease: Lease, status: Status) -> Run:
        await lease.require()
        with suppress(Forbidden):  # the issue is locked
            await repo.issues.react(run.issue, "eyes")
        comment = await status.begin(run, comments.started(run))
        run = changed(run, comment_id=comment)
        await lease.save(run)
        return run

    async def _issue(self, repo: Repository, run: Run, lease: Lease, may: Admitted) -> Issue:
        """The issue as the first worker read it: what it wrote and pushed goes by that text.

        Raises:
            Refused: what whoever asked has read is not known, and may be another text.
        """
        store = RedisStore.of(lease)
        issue = await store.load(ISSUE_KEY, Issue)
        if issue is None:
            asked = await store.load(VERSION_KEY, IssueVersion)
            if asked is None and await edited_since(repo, may.issue, run.asked_at):
                raise Refused(RunStatus.ASKED_BACK, replies.edited_since(run))
            every = repo.issues.comments(run.issue, count=may.issue.comments)
            listener = Listener(repo, may.issue, may.config, run.asked_at)
            said, heard = await listener.heard(every)
            facts, edited = as_asked(may.issue, asked)
            heard = heard.model_copy(update={"edited": edited})
            await lease.save(changed(run, not_read=replies.not_read(heard)))
            issue = issue_text(may.facts.full_name, facts, said, repo.identity.login)
            await store.save(ISSUE_KEY, issue)
        return issue

    async def _attempted(self, issue: Issue, scene: Scene) -> Outcome | Planned:
        lease, run, status = scene.lease, scene.lease.run, scene.status
        job = await scene.job(issue)
        work = self.workshop.plan if run.mode is Mode.PLAN else self.workshop.solve
        watched = WatchedStore(RedisStore.of(lease), status.say)
        async with status.shown(run):
            return await work(
                job,
                watched,
                steps=lease.steps,
                say=watched.say,
            )

    async def _published(
        self, repo: Repository, answer: Answer, checkout: Checkout, remote: Remote, lease: Lease
    ) -> Run:
        await prepare(lease, answer, base=checkout.base)
        pull = await publish(answer, repo=repo, checkout=checkout, remote=remote, lease=lease)
        await keep(lease, pull)
        run = changed(
            lease.run,
            status=RunStatus.OPENED_PULL_REQUEST,
            pull_request=pull.number,
            pull_request_url=pull.html_url,
        )
        await lease.save(changed(run, status=RunStatus.RUNNING))
        return await self._told(repo, run, lease, draft=pull.draft)

    async def _told(self, repo: Repository, run: Run, lease: Lease, *, draft: bool) -> Run:
        """The last word of a run whose pull request is open."""
        number = run.pull_request
        assert number is not None
        run = changed(run, status=RunStatus.OPENED_PULL_REQUEST)
        told = comments.opened(run, number, draft=draft)
        return await self.ending.closed(repo, lease, run, told)
