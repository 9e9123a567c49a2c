"""The end of a run that fixed its issue: a pull request, and the status comment that names it."""

from __future__ import annotations

from bot.comments import followup
from bot.comments.status import pull_marker, render_opened
from bot.github.repository import Repository
from bot.publish.publish import Publication, publish
from bot.runs.context import IssueRun
from bot.runs.register_pull import PREPARED_KEY, prepare_record, register_pull
from bot.runs.status_comment import clean_up_issue, finish_status
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.storage.pulls import PullRecord
from bot.types import Mode, Run, RunStatus, replace
from pipeline.selection.scoring.recalibration import undo_recalibration
from pipeline.types import Selection


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
        confidence=_find_stated_confidence(publication.selection),
    )
    await ctx.lease.save(opened)
    return await _report_opened(ctx.repo, ctx.lease, ctx.settings, draft=pull.draft)


def _find_stated_confidence(selection: Selection) -> float | None:
    """What the history keeps: without its own correction, or it would correct itself."""
    if selection.decided_by == "person":
        return None
    return round(undo_recalibration(selection.confidence, selection.recalibration), 4)


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


async def _close_replaced(repo: Repository, lease: Lease) -> None:
    """Close our earlier pull request for the issue, unless somebody has pushed to it."""
    run = lease.run
    before = await lease.storage.runs.get_readable(run.published_run)
    number = before.pull_request if before else None
    if number is None or number == run.pull_request:
        return
    pull = await repo.pulls.get(number)
    record = await lease.storage.pulls.get(run.repo, number)
    if pull is None or pull.state != "open" or record is None or not record.is_ours(pull.head_sha):
        return
    assert run.pull_request is not None
    note = followup.replacement_note(number, run.pull_request)
    marker = followup.note_marker("closed", str(number))
    await lease.require()
    await repo.issues.comment_once(number, marker, note, since=run.created_at)
    await lease.require()
    await repo.pulls.close(number)


async def _report_opened(repo: Repository, lease: Lease, settings: Settings, *, draft: bool) -> Run:
    await _close_replaced(repo, lease)
    run = replace(lease.run, status=RunStatus.OPENED_PULL_REQUEST)
    assert run.pull_request is not None
    record = await lease.checkpoints.load(PREPARED_KEY, PullRecord)
    proven = record is None or record.proven
    text = render_opened(run, run.pull_request, draft=draft, proven=proven)
    return await finish_status(repo, lease, run, text, settings)
