"""What happens to one issue, from the label to the pull request or the reason why there is none."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from bot.admission.check import Admission, check_admission
from bot.admission.comment_filter import CommentFilter, is_edited_since, restore_requested_version
from bot.admission.issue_text import build_issue
from bot.comments import replies
from bot.comments import status as comments
from bot.errors import RunFailed, RunRefused, TryLater
from bot.failures import translate_errors
from bot.git.mirrors import Checkout, Mirrors
from bot.git.remote import Remote
from bot.github.app import GitHubApp
from bot.github.errors import Forbidden
from bot.github.repository import Repository
from bot.links import run_page_url
from bot.publish.prepare import FixResult, prepare_publication
from bot.publish.publish import Publication, publish
from bot.runner.runner import PipelineRunner
from bot.runner.types import Outcome, PlanOutcome
from bot.runs.context import RunContext
from bot.runs.finish import RunFinisher
from bot.runs.judge import judge_pulls
from bot.runs.register_pull import prepare_record, register_pull
from bot.runs.status_comment import StatusComment, clean_up_issue
from bot.runs.use_candidate import use_candidate
from bot.settings import Settings
from bot.storage.keys import ISSUE_KEY
from bot.storage.lease import Lease
from bot.storage.progress import ProgressStore
from bot.storage.runs import VERSION_KEY
from bot.types import IssueVersion, Mode, Run, RunStatus, Stop, replace
from pipeline.codebase.git import GitFailed
from pipeline.types import Issue, NoFix, Selection


@dataclass(frozen=True)
class SolveIssue:
    """The `RunHandler` of issues.

    Every effect asks for the lease, and finds what an earlier start did.
    """

    settings: Settings
    github: GitHubApp
    mirrors: Mirrors
    runner: PipelineRunner

    async def handle(self, run: Run, lease: Lease) -> Run:
        """See `RunHandler.handle`."""
        try:
            with translate_errors():
                async with self.github.open_repository(run.repo) as repo:
                    if run.end_status is not None:  # a worker died after the last word
                        ended = replace(run, status=run.end_status)
                        return await clean_up_issue(repo, lease, ended, label=self.settings.label)
                    return await self._solve(repo, run, lease)
        except TryLater as later:
            await self.finisher.report_waiting(lease, later.reason)
            raise
        except RunRefused as refused:
            return await self.finisher.report_refusal(lease.run, lease, refused)
        except RunFailed as ended:
            failed = replace(lease.run, failure=ended.failure, detail=ended.detail)
            return await self.fail(failed, lease)

    async def fail(self, run: Run, lease: Lease) -> Run:
        """See `RunFinisher.report_failure`."""
        return await self.finisher.report_failure(run, lease)

    async def stop(self, run: Run, lease: Lease) -> Run:
        """See `RunFinisher.report_stop`."""
        return await self.finisher.report_stop(run, lease)

    async def is_still_valid(self, run: Run, stop: Stop) -> bool:
        """See `RunFinisher.is_still_valid`."""
        return await self.finisher.is_still_valid(run, stop)

    @property
    def finisher(self) -> RunFinisher:
        return RunFinisher(self.settings, self.github)

    async def _solve(self, repo: Repository, run: Run, lease: Lease) -> Run:
        if run.pull_request is not None and run.mode is not Mode.USE:  # only to be told of
            pull = await repo.pulls.find(run.branch, comments.pull_marker(run.id))
            return await self._report_opened(
                repo, run, lease, draft=pull is not None and pull.draft
            )
        may = await check_admission(repo, run, lease, self.settings)
        status = StatusComment(repo, lease, every=self.settings.timings.status_seconds)
        run = replace(run, page_url=run_page_url(self.settings, run.id), queue_position=0)
        run = await self._begin(repo, run, lease, status)
        remote = Remote(
            f"{self.settings.github_url.rstrip('/')}/{may.facts.full_name}.git", repo.get_token
        )
        checkout = await self.mirrors.checkout(
            remote, may.facts.full_name, may.facts.default_branch, base=run.base_commit
        )
        run = replace(run, base_commit=checkout.base)
        await lease.save(run)
        ctx = RunContext(
            repo, run, lease, may, checkout, remote, self.mirrors, self.runner, status,
            self.finisher,
        )  # fmt: skip
        if run.mode is Mode.USE:
            return await use_candidate(ctx)
        issue = await self._load_issue(repo, run, lease, may)
        if run.mode is Mode.JUDGE:
            return await judge_pulls(ctx, issue)
        run = lease.run
        try:
            outcome = await self._run_pipeline(issue, ctx)
        except GitFailed:
            await self.mirrors.discard(remote, may.facts.full_name)
            raise
        run = replace(run, dollars=outcome.dollars)
        await lease.save(run)
        if isinstance(outcome, PlanOutcome):
            run = replace(run, status=RunStatus.PLANNED)
            text = replies.render_plan(run, outcome.plan)
            return await self.finisher.finish(repo, lease, run, text)
        match outcome.result:
            case Selection() as chosen:
                found = FixResult(issue, chosen, outcome.accounts, outcome.sent_to)
                answer = await prepare_publication(found, repo, checkout, lease, may, self.settings)
                return await self._publish(repo, answer, checkout, remote, lease)
            case NoFix() as honest:
                run = replace(run, status=RunStatus.NO_FIX, detail=honest.reason)
                text = comments.render_no_fix(run, honest)
                return await self.finisher.finish(repo, lease, run, text)

    async def _begin(self, repo: Repository, run: Run, lease: Lease, status: StatusComment) -> Run:
        await lease.require()
        with suppress(Forbidden):  # the issue is locked
            await repo.issues.react(run.issue, "eyes")
        comment = await status.write(run, comments.render_started(run))
        run = replace(run, comment_id=comment)
        await lease.save(run)
        return run

    async def _load_issue(self, repo: Repository, run: Run, lease: Lease, may: Admission) -> Issue:
        """The issue as the first worker read it: what it wrote and pushed goes by that text.

        Raises:
            Refused: what whoever asked has read is not known, and may be another text.
        """
        store = lease.checkpoints
        issue = await store.load(ISSUE_KEY, Issue)
        if issue is None:
            asked = await store.load(VERSION_KEY, IssueVersion)
            if asked is None and await is_edited_since(repo, may.issue, run.asked_at):
                raise RunRefused(RunStatus.NEEDS_CONFIRMATION, replies.render_edited_since(run))
            every = repo.issues.list_comments(run.issue, count=may.issue.comments)
            comment_filter = CommentFilter(repo, may.issue, may.config, run.asked_at)
            kept_comments, skipped = await comment_filter.apply(every)
            facts, edited = restore_requested_version(may.issue, asked)
            skipped = skipped.model_copy(update={"edited": edited})
            await lease.save(replace(run, omissions=replies.omissions_note(skipped)))
            issue = build_issue(may.facts.full_name, facts, kept_comments, repo.identity.login)
            await store.save(ISSUE_KEY, issue)
        return issue

    async def _run_pipeline(self, issue: Issue, ctx: RunContext) -> Outcome | PlanOutcome:
        lease, run, status = ctx.lease, ctx.lease.run, ctx.status
        job = await ctx.build_job(issue)
        work = self.runner.plan if run.mode is Mode.PLAN else self.runner.solve
        watched = ProgressStore(lease.checkpoints, status.update)
        async with status.show_updates(run):
            return await work(
                job,
                watched,
                in_flight=lease.in_flight,
                on_progress=watched.report,
            )

    async def _publish(
        self,
        repo: Repository,
        answer: Publication,
        checkout: Checkout,
        remote: Remote,
        lease: Lease,
    ) -> Run:
        await prepare_record(lease, answer, base=checkout.base)
        pull = await publish(answer, repo=repo, checkout=checkout, remote=remote, lease=lease)
        await register_pull(lease, pull)
        run = replace(
            lease.run,
            status=RunStatus.OPENED_PULL_REQUEST,
            pull_request=pull.number,
            pull_request_url=pull.html_url,
        )
        await lease.save(replace(run, status=RunStatus.RUNNING))
        return await self._report_opened(repo, run, lease, draft=pull.draft)

    async def _report_opened(self, repo: Repository, run: Run, lease: Lease, *, draft: bool) -> Run:
        """The last word of a run whose pull request is open."""
        number = run.pull_request
        assert number is not None
        run = replace(run, status=RunStatus.OPENED_PULL_REQUEST)
        text = comments.render_opened(run, number, draft=draft)
        return await self.finisher.finish(repo, lease, run, text)
