"""The steps of a run on an issue: begin, run the pipeline, open the pull request, judge.

The contents of a pull request are untrusted data; only the sandbox applies and runs them.
"""

from contextlib import suppress

from bot.comments.candidates import PULL_PROBLEMS, render_pull_verdict
from bot.comments.followup import Note
from bot.comments.status import (
    pull_marker,
    render_no_fix,
    render_not_judged,
    render_opened,
    render_started,
)
from bot.data.github_facts import PullRequestFacts
from bot.data.job import Outcome
from bot.data.pull import PullRecord
from bot.data.run import Mode, Run, RunStatus
from bot.errors import Forbidden, RepositoryGone
from bot.github.repository import Repository
from bot.runs.context import IssueRun
from bot.runs.publish import PREPARED_KEY, prepare_publication, publish, refusals, register_pull
from bot.runs.status_comment import StatusComment
from bot.safe_text import make_marker
from bot.settings import Settings
from bot.storage.lease import Lease
from pipeline.codebase.git import CodebaseTooLarge, GitFailed
from pipeline.data.progress import Doing
from pipeline.data.types import CommitSha, Issue, NoFix, Selection
from pipeline.edits.external import ExternalEdit, ImportedEdits, diff_commits
from pipeline.select import IMPORTED_KEY
from pipeline.selection.scoring.confidence import undo_recalibration
from pipeline.workflows.pictures import PICTURES_KEY, PicturesRead
from pipeline.workflows.plan import Plan
from sandbox.frozen import replace


async def begin_run(ctx: IssueRun) -> None:
    """Show on the issue that work begins, and fix the commit that the run works on.

    The first worker fixes the commit; later ones fetch the same.

    Raises:
        RepositoryGone, RepositoryEmpty, GitHubUnavailable, LeaseLost.
    """
    lease = ctx.lease
    await lease.require()
    with suppress(Forbidden):  # the issue is locked
        await ctx.repo.issues.reactions(ctx.run.issue).add("eyes")
    page = ctx.settings.page_url(ctx.run.id)
    run = replace(ctx.run, page_url=page, queue_position=0)
    comment = await ctx.status.write(run, render_started(run))
    await lease.save(replace(run, comment_id=comment))
    base = await ctx.fetch(ctx.run.base_commit)
    await lease.save(replace(ctx.run, base_commit=base.base))


async def report_no_fix(ctx: IssueRun, no_fix: NoFix) -> Run:
    """End the run without a fix: the status comment shows what was found, and every edit."""
    unfixed = replace(ctx.run, status=RunStatus.NO_FIX, no_fix=no_fix.reason)
    since = no_fix.fixed_since
    pull = await ctx.repo.pulls.find_merged_with(CommitSha(since.commit)) if since else None
    text = render_no_fix(
        unfixed, no_fix, ctx.settings.offered_name, fixed_by=pull.number if pull else None
    )
    return await ctx.status.finish(unfixed, text)


async def run_pipeline(ctx: IssueRun, issue: Issue) -> Outcome[Selection | Plan | NoFix]:
    """Solve the issue or, in a dry run, plan it; saves what that cost.

    Raises:
        ModelError, SandboxError, GitFailed, LeaseLost: the next start resumes.
    """
    job = await ctx.build_job(await ctx.open_codebase(), issue)
    call = ctx.runner.plan if ctx.run.mode is Mode.PLAN else ctx.runner.solve
    try:
        async with ctx.show_progress() as report:
            outcome = await call(job, ctx.store, on_progress=report)
    except GitFailed:  # a damaged mirror; the next start makes a new one
        await ctx.mirrors.discard(ctx.remote, ctx.facts.full_name)
        raise
    skipped = ctx.run.skipped
    read = await ctx.store.load(PICTURES_KEY, PicturesRead)
    if read is not None and not read.text:  # the model declined
        skipped = replace(skipped, pictures=issue.body.count("[image]"))
    await ctx.lease.save(replace(ctx.run, dollars=outcome.dollars, skipped=skipped))
    return outcome


async def open_pull(ctx: IssueRun, fix: Outcome[Selection], issue: Issue) -> Run:
    """Open the pull request, register it for follow-up and report it on the issue.

    Raises:
        PublishRefused, GitHubUnavailable, LeaseLost.
    """
    with refusals():
        publication = await prepare_publication(fix, issue, ctx)
        pull = await publish(publication, ctx)
    await register_pull(ctx.lease, pull)
    opened = replace(
        ctx.run,
        status=RunStatus.RUNNING,
        pull_request=pull.number,
        pull_request_url=pull.html_url,
        confidence=_find_stated_confidence(publication.selection),
        language=await ctx.load_language(),
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
        return await StatusComment(repo, lease, settings).clean_up(ended)
    if run.pull_request is not None and run.mode is not Mode.USE:
        pull = await repo.pulls.find(run.branch, pull_marker(run.id))
        draft = pull is not None and pull.draft
        return await _report_opened(repo, lease, settings, draft=draft)
    return None


async def _close_replaced(repo: Repository, lease: Lease) -> None:
    """Close our earlier pull request for the issue, unless somebody has pushed to it."""
    run = lease.run
    runs = lease.storage.runs
    before = await runs.get_readable(run.published_run)
    while before is not None and before.pull_request is None and before.published_run:
        before = await runs.get_readable(before.published_run)
    number = before.pull_request if before else None
    if number is None or number == run.pull_request:
        return
    pull = await repo.pulls.get(number)
    record = await lease.storage.pulls.get(run.repo, number)
    if pull is None or pull.state != "open" or record is None or not record.is_ours(pull.head_sha):
        return
    assert run.pull_request is not None
    note = Note.REPLACED.format(new=run.pull_request)
    marker = make_marker("closed", str(number))
    await lease.require()
    await repo.issues.comment_once(number, marker, f"{note}\n\n{marker}\n", since=run.created_at)
    await lease.require()
    await repo.pulls.edit(number, state="closed")


async def _report_opened(repo: Repository, lease: Lease, settings: Settings, *, draft: bool) -> Run:
    await _close_replaced(repo, lease)
    run = replace(lease.run, status=RunStatus.OPENED_PULL_REQUEST)
    assert run.pull_request is not None
    record = await lease.checkpoints.load(PREPARED_KEY, PullRecord)
    proven = record is None or record.proven
    text = render_opened(run, run.pull_request, draft=draft, proven=proven)
    return await StatusComment(repo, lease, settings).finish(run, text)


async def judge_pulls(ctx: IssueRun, issue: Issue) -> Run:
    """Compare the pull requests; returns the run's final record, already reported.

    Raises:
        ModelError, SandboxError, GitHubError, GitFailed, LeaseLost.
    """
    lease = ctx.lease
    async with ctx.show_progress() as report:
        edits: list[ExternalEdit] = []
        if await ctx.store.load(IMPORTED_KEY, ImportedEdits) is None:
            report(Doing("Fetching the pull requests."))
            edits = [await _load_edit(ctx, number) for number in ctx.run.pulls]
        await ctx.fetch(ctx.checkout.base)  # a mirror that was made anew lacks it
        job = await ctx.build_job(await ctx.open_codebase(), issue)
        chosen = await ctx.runner.select(job, edits, ctx.store, on_progress=report)
    await lease.save(replace(ctx.run, dollars=chosen.dollars))
    judged = replace(ctx.run, status=RunStatus.JUDGED)
    if isinstance(chosen.result, NoFix):
        return await ctx.status.finish(judged, render_not_judged(judged))
    verdict = chosen.with_result(chosen.result)
    return await ctx.status.finish(judged, render_pull_verdict(judged, verdict))


async def _load_edit(ctx: IssueRun, number: int) -> ExternalEdit:
    """The changes of a pull request since it left the default branch, or why they are unknown."""
    facts = await ctx.repo.pulls.get(number)
    if facts is None:
        return ExternalEdit(f"#{number}", b"", PULL_PROBLEMS["missing"])
    name = f"#{number} by {facts.author}"
    if facts.state != "open":
        return ExternalEdit(name, b"", PULL_PROBLEMS["merged" if facts.merged_at else "closed"])
    try:
        return await _fetch_edit(ctx, facts, name)
    except RepositoryGone:
        return ExternalEdit(name, b"", PULL_PROBLEMS["commits gone"])
    except CodebaseTooLarge as error:
        return ExternalEdit(name, b"", str(error))
    except GitFailed:
        return ExternalEdit(name, b"", PULL_PROBLEMS["unreadable"])


async def _fetch_edit(ctx: IssueRun, facts: PullRequestFacts, name: str) -> ExternalEdit:
    forked = await ctx.repo.pulls.find_fork_point(ctx.checkout.base, facts.head_sha)
    if forked is None:
        return ExternalEdit(name, b"", PULL_PROBLEMS["unrelated"])
    await ctx.fetch(forked)
    place = await ctx.fetch(facts.head_sha)
    return await diff_commits(place.git_dir, forked, facts.head_sha, name)
