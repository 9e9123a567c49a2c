"""`/capuchin judge #12 #34`: compares pull requests of others in a comment; pushes nothing.

The contents of a pull request are untrusted data; only the sandbox applies and runs them.
"""

from __future__ import annotations

from typing import Final

from bot.comments.status import render_not_judged
from bot.comments.verdict import render_pull_verdict
from bot.errors import RepositoryGone
from bot.github.models import PullRequestFacts
from bot.runner.types import SelectionRequest
from bot.runs.context import IssueRun
from bot.types import Run, RunStatus, replace
from pipeline.codebase.git import CodebaseTooLarge, GitFailed
from pipeline.edits.external import ExternalEdit, ImportedEdits, diff_commits
from pipeline.select import IMPORTED_KEY
from pipeline.types import Issue, NoFix

NONE: Final = "There is no pull request of this number here."
CLOSED: Final = "It is closed."
MERGED: Final = "It is merged already."
UNRELATED: Final = "It has no history in common with the default branch."
GONE: Final = "Its commits are no longer there."
BROKEN: Final = "git could not read it."


async def judge_pulls(ctx: IssueRun, issue: Issue) -> Run:
    """Compare the pull requests; returns the run's final record, already reported.

    Raises:
        ModelError, SandboxError, GitHubError, GitFailed, LeaseLost.
    """
    lease = ctx.lease
    async with ctx.show_progress() as store:
        edits: list[ExternalEdit] = []
        if await store.load(IMPORTED_KEY, ImportedEdits) is None:
            store.report("Fetching the pull requests.")
            edits = [await _load_edit(ctx, number) for number in ctx.run.pulls]
        await ctx.fetch(ctx.checkout.base)  # a mirror that was made anew lacks it
        job = await ctx.build_job(await ctx.open_codebase(), issue)
        chosen = await ctx.runner.select(
            job, SelectionRequest(edits), store, in_flight=lease.in_flight, on_progress=store.report
        )
    await lease.save(replace(ctx.run, dollars=chosen.dollars))
    judged = replace(ctx.run, status=RunStatus.JUDGED)
    if isinstance(chosen.result, NoFix):
        return await ctx.finish(judged, render_not_judged(judged))
    verdict = chosen.with_result(chosen.result)
    return await ctx.finish(judged, render_pull_verdict(judged, verdict))


async def _load_edit(ctx: IssueRun, number: int) -> ExternalEdit:
    """The changes of a pull request since it left the default branch, or why they are unknown."""
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
    except CodebaseTooLarge as error:
        return ExternalEdit(name, b"", str(error))
    except GitFailed:
        return ExternalEdit(name, b"", BROKEN)


async def _fetch_edit(ctx: IssueRun, facts: PullRequestFacts, name: str) -> ExternalEdit:
    forked = await ctx.repo.pulls.find_fork_point(ctx.checkout.base, facts.head_sha)
    if forked is None:
        return ExternalEdit(name, b"", UNRELATED)
    await ctx.fetch(forked)
    place = await ctx.fetch(facts.head_sha)
    return await diff_commits(place.git_dir, forked, facts.head_sha, name)
