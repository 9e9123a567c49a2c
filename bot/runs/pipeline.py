"""Runs the pipeline for an issue, with its progress in the status comment."""

from __future__ import annotations

from bot.runner.types import Outcome
from bot.runs.context import IssueRun
from bot.types import Mode, replace
from pipeline.codebase.git import GitFailed
from pipeline.types import Issue, NoFix, Selection
from pipeline.workflows.plan import Plan


async def run_pipeline(ctx: IssueRun, issue: Issue) -> Outcome[Selection | Plan | NoFix]:
    """Solve the issue or, in a dry run, plan it; saves what that cost.

    Raises:
        ModelError, SandboxError, GitFailed, LeaseLost: the next start goes on.
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
