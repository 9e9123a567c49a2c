"""`/capuchin use 2`: another edit of a run takes the place of the one in its pull request.

Two commits on top of what is there, one that takes the old edit back and one that holds the new:
reviews keep their place, nothing is forced, and a branch with somebody else's commit is let be.
Every effect is find-or-create, as in `bot.publish.publish`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bot.comments import candidates as replies
from bot.comments import pull_request
from bot.errors import PushRejected, UnfitDiff
from bot.git.commits import copy_commit, create_commit, push
from bot.github.models import PullRequestFacts
from bot.publish.prepare import FixResult, prepare_publication
from bot.publish.publish import Publication
from bot.runs.context import RunContext
from bot.storage.branch_history import BranchHistory, BranchState, rank_candidates
from bot.storage.checkpoints import RedisStore
from bot.storage.keys import BRANCH_HISTORY_KEY, ISSUE_KEY
from bot.storage.progress import ProgressStore
from bot.storage.pulls import PullRecord
from bot.types import Mode, Run, RunStatus
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.solve import OUTCOME_KEY, SolveResult
from pipeline.types import Issue, Selection
from pipeline.workflows.substitute import substitute_candidate


class SwapRefused(Exception):
    """It cannot be done; `str(error)` is the sentence for the maintainer."""


@dataclass(frozen=True)
class SourceRun:
    """The run whose pull request is changed."""

    run: Run
    store: RedisStore
    selection: Selection
    pull: PullRequestFacts
    history: BranchHistory


async def use_candidate(ctx: RunContext) -> Run:
    """The run as it ended, its maintainer told. Raises as `SolveIssue`."""
    try:
        source = await _load_source(ctx)
        text = await _swap(ctx, source)
    except SwapRefused as refused:
        return await ctx.finish(
            RunStatus.REFUSED, replies.render_no_swap(ctx.lease.run, str(refused))
        )
    fields = {"pull_request": source.pull.number, "pull_request_url": source.pull.html_url}
    return await ctx.finish(RunStatus.SWAPPED, text, **fields)


async def _load_source(ctx: RunContext) -> SourceRun:
    lease, run = ctx.lease, ctx.run
    source = await lease.storage.runs.get_readable(run.published_run)
    if source is None or source.pull_request is None:
        raise SwapRefused(replies.run_expired())
    store = lease.storage.checkpoints(source.id, lease.in_flight)
    solved = await store.load(OUTCOME_KEY, SolveResult)
    pull = await ctx.repo.pulls.get(source.pull_request)
    if solved is None or not isinstance(solved.result, Selection):
        raise SwapRefused(replies.edits_expired())
    if pull is None or pull.state != "open":
        raise SwapRefused(replies.pull_not_open(source.pull_request))
    if not 1 <= run.candidate <= len(rank_candidates(solved.result)):
        raise SwapRefused(replies.no_such_candidate(run.candidate))
    contents = await store.load(BRANCH_HISTORY_KEY, BranchHistory) or BranchHistory.from_run(source)
    return SourceRun(source, store, solved.result, pull, contents)


async def _swap(ctx: RunContext, source: SourceRun) -> str:
    run, number = ctx.run, source.pull.number
    state = source.history.state_at(source.pull.head_sha)
    if state is None:
        raise SwapRefused(await _head_refusal_reason(ctx, source))
    if state.candidate == run.candidate and state.run != run.id:
        raise SwapRefused(replies.already_current(number, run.candidate))
    selection = await _verify_candidate(ctx, source)
    publication = await _prepare_publication(ctx, source, selection)
    head = state.head if state.run == run.id else await _push(ctx, source, state, publication)
    await _update_record(ctx, number, head=head, pending_head="")
    await ctx.lease.require()
    body = pull_request.pull_body(
        source.run,
        selection,
        publication.accounts,
        publication.template,
        destinations=publication.destinations,
    )
    await ctx.repo.pulls.edit_description(number, body)
    await _schedule_follow_up(ctx, number)
    return replies.render_swap(ctx.lease.run, number, selection)


async def _prepare_publication(
    ctx: RunContext, source: SourceRun, selection: Selection
) -> Publication:
    """What is published, in the form that the repository wants."""
    ledger = await source.store.load(LEDGER_KEY, Ledger)
    issue = await source.store.load(ISSUE_KEY, Issue) or _empty_issue(ctx)
    accounts, sent_to = (ledger.accounts, ledger.sent_to) if ledger else ((), ())
    found = FixResult(issue, selection, accounts, sent_to)
    publication = await prepare_publication(
        found, ctx.repo, ctx.checkout, ctx.lease, ctx.admission, ctx.finisher.settings
    )
    return replace(publication, run=source.run)


async def _head_refusal_reason(ctx: RunContext, source: SourceRun) -> str:
    """Why the head of the branch is none that an edit of ours could be exchanged on."""
    number = source.pull.number
    record = await _load_record(ctx, number)
    if record is not None and record.is_ours(source.pull.head_sha):
        return replies.review_in_between(number)
    return replies.foreign_push(number)


async def _load_record(ctx: RunContext, number: int) -> PullRecord | None:
    return await ctx.lease.storage.pulls.get(ctx.run.repo, number)


async def _update_record(ctx: RunContext, number: int, **fields: object) -> None:
    """For whoever looks after the pull request: what is pushed is ours, no person's."""
    await ctx.lease.require()
    seconds = ctx.finisher.settings.timings.follow_up_seconds
    await ctx.lease.storage.pulls.change(ctx.run.repo, number, fields, due_in=seconds)


async def _schedule_follow_up(ctx: RunContext, number: int) -> None:
    """Have the evidence gathered on the new head."""
    run = ctx.run
    await ctx.lease.require()
    await ctx.lease.storage.runs.create(
        run.repo,
        number,
        asked_by=run.asked_by,
        delivery=f"used-{run.id}",
        mode=Mode.FOLLOW_UP,
    )


def _empty_issue(ctx: RunContext) -> Issue:
    return Issue(repository=ctx.run.repo.full_name, title="", body="")


async def _verify_candidate(ctx: RunContext, source: SourceRun) -> Selection:
    """The edit with what is known of it, after the reproduction test and the suite ran with it."""
    run, lease = ctx.run, ctx.lease
    at = rank_candidates(source.selection)[run.candidate - 1]
    store = ProgressStore(lease.checkpoints, ctx.status.update)
    saved = await store.load("used", SolveResult)
    if saved and isinstance(saved.result, Selection):
        return saved.result
    issue = await source.store.load(ISSUE_KEY, Issue)
    if run.candidate == 1:
        selection = source.selection
    else:
        job = await ctx.build_job(issue or _empty_issue(ctx))
        async with (
            ctx.status.show_updates(run),
            ctx.runner.open_sandbox(job, store.report) as (_, sandbox),
        ):
            store.report("Running the tests with that edit.")
            selection = await substitute_candidate(
                source.selection,
                at,
                by=run.asked_by,
                issue=job.issue,
                codebase=job.codebase,
                sandbox=sandbox,
                store=store,
                options=job.options,
            )
    await store.save("used", SolveResult(result=selection))
    return selection


async def _push(
    ctx: RunContext, source: SourceRun, state: BranchState, publication: Publication
) -> str:
    run, lease = ctx.run, ctx.lease
    try:
        head = await _create_commits(ctx, state, publication)
    except UnfitDiff as unfit:
        raise SwapRefused(replies.push_forbidden(str(unfit))) from unfit
    await lease.require()
    noted = source.history.with_state(BranchState(head=head, candidate=run.candidate, run=run.id))
    await source.store.save(BRANCH_HISTORY_KEY, noted)
    number = source.pull.number
    await _update_record(ctx, number, pending_head=head)
    try:
        await push(
            ctx.checkout.git_dir, ctx.remote,
            sha=head, branch=source.run.branch, expected=state.head,
        )  # fmt: skip
    except PushRejected:
        raise SwapRefused(replies.push_rejected(source.pull.number)) from None
    return head


async def _create_commits(ctx: RunContext, state: BranchState, publication: Publication) -> str:
    """The old edit taken back, then the new one. Dated by the run: each try makes the same two."""
    run, base, selection = ctx.run, ctx.checkout.base, publication.selection
    await ctx.fetch(state.head)
    author, at = ctx.repo.identity, run.created_at
    git_dir, proof = ctx.checkout.git_dir, selection.evidence.reproduction
    kept = base
    if proof.after.passed:
        kept = await create_commit(
            git_dir, parent=base, diff=proof.diff,
            message=pull_request.reproduction_title(run.issue), author=author, at=at,
        )  # fmt: skip
    back = publication.commit_style.format_title("revert", pull_request.revert_title(run.asked_by))
    undone = await copy_commit(
        git_dir, parent=state.head, source=kept,
        message=publication.commit_message(back, "", author), author=author, at=at,
    )  # fmt: skip
    message = publication.commit_message(
        publication.title, pull_request.commit_body(selection), author
    )
    return await create_commit(
        git_dir,
        parent=undone,
        diff=selection.candidate.patch.diff,
        message=message,
        author=author,
        at=at,
    )
