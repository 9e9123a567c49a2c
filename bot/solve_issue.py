"""One issue, from its label to the pull request or the reason why none was opened.

A worker may die at any line; the next one starts at the top and finds what is done already.
"""

from dataclasses import dataclass

from bot.admission.check import check_admission
from bot.admission.issue_text import load_issue
from bot.comments.replies import render_plan
from bot.comments.unpublished import AWAITS_APPROVAL
from bot.data.run import Mode, Run, RunStatus
from bot.errors import PublishRefused, RunFailed, RunRefused, TryLater, translate_errors
from bot.git.mirrors import Mirrors
from bot.github.repository import Repository
from bot.runner.models import solver_sees
from bot.runner.runner import PipelineRunner
from bot.runs.context import IssueRun
from bot.runs.finish import RunFinisher
from bot.runs.further_samples import take_over_samples
from bot.runs.steps import (
    begin_run,
    judge_pulls,
    open_pull,
    report_no_fix,
    resume_ending,
    run_pipeline,
)
from bot.runs.use_candidate import find_unpublished, give_answer, use_candidate
from bot.storage.lease import Lease
from pipeline.data.types import NoFix, Selection
from pipeline.workflows.plan import Plan
from sandbox.frozen import replace


@dataclass(frozen=True)
class SolveIssue(RunFinisher):
    """The `RunHandler` of issues."""

    mirrors: Mirrors
    runner: PipelineRunner

    async def handle(self, run: Run, lease: Lease) -> Run:
        try:
            with translate_errors():
                async with self.github.open_repository(run.repo, about=run.issue) as repo:
                    return await self._solve(repo, lease)
        except TryLater as later:
            await self.report_waiting(lease, later.reason)
            raise
        except RunRefused as refused:
            return await self.report_refusal(lease.run, lease, refused.refusal)
        except RunFailed as failed:
            return await self.fail(await self.with_failure(failed, lease), lease)

    async def _solve(self, repo: Repository, lease: Lease) -> Run:
        if ended := await resume_ending(repo, lease, self.settings):
            return ended
        admission = await check_admission(repo, lease.run, lease.storage.quota, self.settings)
        ctx = IssueRun(
            lease=lease, repo=repo, facts=admission.facts, issue=admission.issue,
            config=admission.config, settings=self.settings, mirrors=self.mirrors,
            runner=self.runner,
        )  # fmt: skip
        unpublished = await find_unpublished(ctx)
        await begin_run(ctx)
        if ctx.run.mode is Mode.USE:
            return await use_candidate(ctx)
        if unpublished is not None:
            return await give_answer(ctx, *unpublished)
        await take_over_samples(ctx)
        issue = await load_issue(
            repo, lease, admission,
            github_url=self.settings.github_url, sees=solver_sees(self.settings),
        )  # fmt: skip
        if ctx.run.mode is Mode.JUDGE:
            return await judge_pulls(ctx, issue)
        outcome = await run_pipeline(ctx, issue)
        match outcome.result:
            case Plan() as plan:
                planned = replace(ctx.run, status=RunStatus.PLANNED)
                text = render_plan(planned, plan, await ctx.find_costs())
                return await ctx.status.finish(planned, text)
            case NoFix() as no_fix:
                return await report_no_fix(ctx, no_fix)
            case Selection() as chosen:
                if ctx.config.publish == "approval":
                    raise PublishRefused(AWAITS_APPROVAL)
                fix = outcome.with_result(chosen)
                return await open_pull(ctx, fix, issue)
