"""Runs the pipeline for an issue, with its progress in the status comment."""

from __future__ import annotations

from bot.comments.status import render_no_fix
from bot.runner.types import Outcome
from bot.runs.context import IssueRun
from bot.types import CommitSha, Mode, Run, RunStatus, replace
from pipeline.codebase.git import GitFailed
from pipeline.types import Issue, NoFix, Selection
from pipeline.workflows.plan import Plan


async def report_no_fix(ctx: IssueRun, no_fix: NoFix) -> Run:
    """End the run without a fix: the status comment shows what was found, and every edit."""
    unfixed = replace(ctx.run, status=RunStatus.NO_FIX, detail=no_fix.reason)
    since = no_fix.fixed_since
    pull = await ctx.repo.pulls.find_merged_with(CommitSha(since.commit)) if since else None
    text = render_no_fix(
        unfixed, no_fix, ctx.settings.app_name, fixed_by=pull.number if pull else None
    )
    return await ctx.finish(unfixed, text)


async def run_pipeline(ctx: IssueRun, issue: Issue) -> Outcome[Selection | Plan | NoFix]:
    """Solve the issue or, in a dry run, plan it; saves what that cost.

    Raises:
        ModelError, SandboxError, GitFailed, LeaseLost: the next start resumes.
    """
    job = await ctx.build_job(await ctx.open_codebase(), issue)
    call = ctx.runner.plan if ctx.run.mode is Mode.PLAN else ctx.runner.solve
    try:
        async with ctx.show_progress() as store:
            outcome = await call(
                job, store, in_flight=ctx.lease.in_flight, on_progress=store.report
            )
    except GitFailed:  # a damaged mirror; the next start makes a new one
        await ctx.mirrors.discard(ctx.remote, ctx.facts.full_name)
        raise
    await ctx.lease.save(replace(ctx.run, dollars=outcome.dollars))
    return outcome
