"""`/capuchin judge #12 #34`: a verdict on pull requests of others, as a comment; nothing is pushed.

What a pull request holds is data: it is fetched, applied in the sandbox and run there, no more.
"""

from __future__ import annotations

from typing import Final

from bot.comments import status
from bot.comments.verdict import render_pull_verdict
from bot.errors import RepositoryGone
from bot.github.models import PullRequestFacts
from bot.runner.types import Outcome, SelectionRequest
from bot.runs.context import RunContext
from bot.storage.progress import ProgressStore
from bot.types import Run, RunStatus, replace
from pipeline.codebase.git import GitFailed
from pipeline.edits.external import ExternalEdit, ImportedEdits, diff_commits
from pipeline.select import IMPORTED_KEY
from pipeline.types import Issue

NONE: Final = "There is no pull request of this number here."
CLOSED: Final = "It is closed."
MERGED: Final = "It is merged already."
UNRELATED: Final = "It has no history in common with the default branch."
GONE: Final = "Its commits are no longer there."
BROKEN: Final = "git could not read it."


async def judge_pulls(ctx: RunContext, issue: Issue) -> Run:
    """The run as it ended, its verdict told. Raises as `SolveIssue`."""
    run, lease = ctx.run, ctx.lease
    store = ProgressStore(lease.checkpoints, ctx.status.update)
    async with ctx.status.show_updates(run):
        edits: list[ExternalEdit] = []
        if await store.load(IMPORTED_KEY, ImportedEdits) is None:
            store.report("Fetching the pull requests.")
            edits = [await _load_edit(ctx, number) for number in run.pulls]
        await ctx.fetch(ctx.checkout.base)  # a mirror that was made anew lacks it
        job = await ctx.build_job(issue)
        chosen = await ctx.runner.select(
            job, SelectionRequest(edits), store, in_flight=lease.in_flight, on_progress=store.report
        )
    run = replace(lease.run, dollars=chosen.dollars)
    await lease.save(run)
    if isinstance(chosen, Outcome):
        return await ctx.finish(RunStatus.JUDGED, status.render_not_judged(run))
    return await ctx.finish(RunStatus.JUDGED, render_pull_verdict(run, chosen))


async def _load_edit(ctx: RunContext, number: int) -> ExternalEdit:
    """What a pull request changes since it left the default branch, or why that is not known."""
    facts = await ctx.repo.pulls.get(number)
    if facts is None:
        return ExternalEdit(f"#{number}", b"", NONE)
    name = f"#{number} by {facts.author}"
    if facts.state != "open":
        return ExternalEdit(name, b"", MERGED if facts.merged_at else CLOSED)
    try:
        return await _fetch_edit(ctx, facts, name)
    except RepositoryGone:
        return ExternalEdit(name, b"", GONE)
    except GitFailed:
        return ExternalEdit(name, b"", BROKEN)


async def _fetch_edit(ctx: RunContext, facts: PullRequestFacts, name: str) -> ExternalEdit:
    forked = await ctx.repo.pulls.find_fork_point(ctx.checkout.base, facts.head_sha)
    if forked is None:
        return ExternalEdit(name, b"", UNRELATED)
    await ctx.fetch(forked)
    place = await ctx.fetch(facts.head_sha)
    return await diff_commits(place.git_dir, forked, facts.head_sha, name)
