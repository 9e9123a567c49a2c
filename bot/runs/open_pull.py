"""The end of a run that fixed its issue: a pull request, and the status comment that names it."""

from __future__ import annotations

from bot.comments.status import pull_marker, render_opened
from bot.github.repository import Repository
from bot.publish.publish import Publication, publish
from bot.runs.context import IssueRun
from bot.runs.register_pull import prepare_record, register_pull
from bot.runs.status_comment import clean_up_issue, finish_status
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.types import Mode, Run, RunStatus, replace


async def open_pull(ctx: IssueRun, publication: Publication) -> Run:
    """Open the pull request, register it for follow-up and report it on the issue.

    Raises:
        PublishRefused, GitHubUnavailable, LeaseLost.
    """
    await prepare_record(ctx.lease, publication, base=ctx.checkout.base)
    pull = await publish(publication, ctx)
    await register_pull(ctx.lease, pull)
    opened = replace(
        ctx.run,
        status=RunStatus.RUNNING,
        pull_request=pull.number,
        pull_request_url=pull.html_url,
    )
    await ctx.lease.save(opened)
    return await _report_opened(ctx.repo, ctx.lease, ctx.settings, draft=pull.draft)


async def resume_ending(repo: Repository, lease: Lease, settings: Settings) -> Run | None:
    """End a run whose result an earlier worker had published already; None for all others."""
    run = lease.run
    if run.end_status is not None:
        ended = replace(run, status=run.end_status)
        return await clean_up_issue(repo, lease, ended, label=settings.label)
    if run.pull_request is not None and run.mode is not Mode.USE:
        pull = await repo.pulls.find(run.branch, pull_marker(run.id))
        draft = pull is not None and pull.draft
        return await _report_opened(repo, lease, settings, draft=draft)
    return None


async def _report_opened(repo: Repository, lease: Lease, settings: Settings, *, draft: bool) -> Run:
    run = replace(lease.run, status=RunStatus.OPENED_PULL_REQUEST)
    assert run.pull_request is not None
    text = render_opened(run, run.pull_request, draft=draft)
    return await finish_status(repo, lease, run, text, settings)
