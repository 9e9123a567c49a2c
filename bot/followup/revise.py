"""Revises a pull request: follows reviews and resolves conflicts, with new commits and answers."""

import dataclasses
from collections.abc import Sequence

from bot.comments.followup import Note, stop_note
from bot.comments.pull_request import reproduction_title
from bot.comments.status import find_run
from bot.data.github_facts import CommitFacts
from bot.data.pull import PullRecord
from bot.data.run import Run, RunStatus
from bot.errors import PublishRefused, PushRejected, RepositoryGone, Superseded, UnfitDiff
from bot.followup.feedback import (
    BATCH_KEY,
    CI_ID,
    FeedbackBatch,
    FeedbackReader,
    PullRun,
    acknowledge,
    answer_reviews,
)
from bot.followup.schedule import apply_quota, claim_rebase, is_daily_ceiling, is_paused, pause
from bot.git.commits import create_commit, is_merge_of, push, read_changes
from bot.git.mirrors import Checkout
from bot.repo_config.model import is_named
from bot.runs.signed_commits import prepare_push
from bot.safe_text import code as code_span
from bot.safe_text import line, make_marker
from bot.storage.checkpoints import RedisStore
from bot.storage.keys import BRANCH_HISTORY_KEY
from bot.storage.lease import Lease
from bot.storage.pulls import MAX_ANSWERED, BranchHistory
from pipeline.codebase.commit import Codebase
from pipeline.data.types import CommitSha, Patch
from pipeline.edits.patches import create_patch
from pipeline.workflows.revise import Revision, RevisionTask
from sandbox.frozen import Frozen, replace

CONFLICT_KEY = "clash"
UNPUBLISHED_KEY = "unpublished"


class Conflict(Frozen):
    """A conflict in progress. Saved: after a crash the next worker resolves the same one."""

    tip: CommitSha
    head: CommitSha
    done: bool = False
    """It is resolved, or a comment says that it is not."""


async def find_broken_off(lease: Lease, record: PullRecord, head: CommitSha) -> RedisStore | None:
    """The checkpoints of an earlier run that broke off: its answer may be paid for.

    It worked on the same `head`, and nobody has had the answer. None where this run has its own.
    """
    own, run = lease.checkpoints, lease.run
    if await own.load(BATCH_KEY, FeedbackBatch) or await own.load(CONFLICT_KEY, Conflict):
        return None
    for earlier in await lease.storage.run_queries.list_of_issue(run.repo, run.issue):
        if earlier.id == run.id:
            continue
        if earlier.status not in (RunStatus.FAILED, RunStatus.STOPPED):
            break
        kept = lease.storage.checkpoints(earlier.id, lease.in_flight)
        batch = await kept.load(BATCH_KEY, FeedbackBatch)
        if batch is not None and not batch.done and batch.head == head:
            answered = {remark.id for remark in batch.remarks} & set(record.answered_ids)
            return None if answered else kept
    return None


async def address_reviews(ctx: PullRun) -> PullRun:
    """Follow new feedback: push commits for it, and answer every remark."""
    batch = await ctx.work.load(BATCH_KEY, FeedbackBatch)
    if batch is None and not is_paused(ctx):
        batch = await apply_quota(ctx, await FeedbackReader(ctx).read())
    if batch is None or not batch.remarks or batch.done:
        return ctx
    await ctx.work.save(BATCH_KEY, batch)
    await acknowledge(ctx, batch)
    head = await ctx.fetch(batch.head)
    code = await Codebase.open(head.git_dir, head.base)
    revised = await _revise(ctx, code, await _review_task(ctx, batch, code))
    if is_daily_ceiling(revised.spent_ceiling):
        return await pause(ctx, revised.spent_ceiling, notify=True)
    sha = None
    if revised.patch is not None:
        by_ci = all(remark.id.startswith(CI_ID) for remark in batch.remarks)
        what = "Mend what the checks found" if by_ci else "Address review comments"
        title = ctx.record.commit_style.format_title("fix", what)
        try:
            sha = await _commit(ctx, head, head.base, revised.patch.diff, title, revised.answer)
        except UnfitDiff:
            ended = "the edit does not fit the branch"
            revised = Revision(patch=None, answer="", ended=ended)
    if sha and revised.patch:
        ctx = await _push(ctx, sha, expected=batch.head, edit=revised.patch)
        sha = ctx.pull.head_sha
    await answer_reviews(ctx, batch, revised, sha)
    ctx = await mark_answered(ctx, batch)
    await ctx.work.save(BATCH_KEY, replace(batch, done=True))
    if ctx.adopted is not None:  # people may have written more since
        return await address_reviews(dataclasses.replace(ctx, adopted=None))
    return ctx


async def is_rebase_unfinished(ctx: PullRun) -> bool:
    """Whether a rebase broke off: until it is finished, the head is incomplete."""
    clash = await ctx.work.load(CONFLICT_KEY, Conflict)
    return clash is not None and not clash.done


async def mark_answered(ctx: PullRun, batch: FeedbackBatch) -> PullRun:
    ids = dict.fromkeys((*ctx.record.answered_ids, *(remark.id for remark in batch.remarks)))
    return await ctx.update_record(answered_ids=tuple(ids)[-MAX_ANSWERED:])


async def report_stop(ctx: PullRun, run: Run) -> None:
    """Comment that the run was stopped; all feedback until now counts as answered."""
    await ctx.comment_once(stop_note(run), make_marker("stopped", run.id))
    await mark_answered(ctx, await FeedbackReader(ctx).read())


async def rebase_on_conflict(ctx: PullRun, tip: Checkout) -> PullRun:
    """If the change conflicts with the base branch, write it again on that, or comment why not."""
    clash = await ctx.work.load(CONFLICT_KEY, Conflict)
    if clash is not None and clash.done:
        return ctx
    if clash is None:
        known = ctx.record.unresolved_head == ctx.pull.head_sha or is_paused(ctx)
        if known or await ctx.merge_with(tip) or not await claim_rebase(ctx):
            return ctx
        clash = Conflict(tip=tip.base, head=ctx.pull.head_sha)
        await ctx.work.save(CONFLICT_KEY, clash)
    ctx = await _rewrite_on_base(ctx, clash, tip.branch)
    if is_paused(ctx):
        return ctx
    await ctx.work.save(CONFLICT_KEY, replace(clash, done=True))
    return ctx


async def _rewrite_on_base(ctx: PullRun, clash: Conflict, branch: str) -> PullRun:
    base = await ctx.fetch(clash.tip)
    code = await Codebase.open(base.git_dir, base.base)
    task = await _rebase_task(ctx, clash, code)
    revised = await _revise(ctx, code, task)
    if is_daily_ceiling(revised.spent_ceiling):
        return await pause(ctx, revised.spent_ceiling, notify=False)
    if revised.patch is None:
        text = Note.CONFLICT.format(branch=code_span(branch, 100))
        await ctx.comment_once(text, make_marker("conflict", clash.head))
        return await ctx.update_record(unresolved_head=clash.head)
    style = ctx.record.commit_style
    issue = ctx.record.issue
    red = await _commit(
        ctx, base, base.base, task.test_diff,
        style.format_title("test", reproduction_title(issue)), "",
    ) if task.test_diff else base.base  # fmt: skip
    title = style.format_title("fix", line(ctx.pull.title, 100) or f"Fix issue {issue}")
    sha = await _commit(ctx, base, red, revised.patch.diff, title, revised.answer)
    ctx = await _push(ctx, sha, expected=clash.head, edit=revised.patch, onto=base.base)
    if ctx.record.handed_over:
        return ctx
    sha = ctx.pull.head_sha
    await ctx.comment_once(Note.REBASED.format(head=sha[:7]), make_marker("rebased", sha))
    return ctx


async def _review_task(ctx: PullRun, batch: FeedbackBatch, code: Codebase) -> RevisionTask:
    base = await ctx.fetch(ctx.record.base)
    before = await Codebase.open(base.git_dir, base.base)
    changed = await read_changes(before, code)
    return RevisionTask(
        issue=ctx.record.source_issue,
        diff=(await create_patch(before, changed)).diff,
        feedback=tuple(remark.to_prompt() for remark in batch.remarks),
        logs=batch.logs,
        files=(*changed, *(remark.path for remark in batch.remarks if remark.path)),
        test=ctx.record.test_path,
        test_files=ctx.record.evidence_files,
        command=ctx.record.command,
    )


async def _rebase_task(ctx: PullRun, clash: Conflict, code: Codebase) -> RevisionTask:
    head = await ctx.fetch(clash.head)
    base = await ctx.fetch(ctx.record.base)
    before = await Codebase.open(base.git_dir, base.base)
    after = await Codebase.open(head.git_dir, head.base)
    changed = await read_changes(before, after)
    test = ctx.record.test_path
    files = ctx.record.evidence_files
    added = {path: changed[path] for path in files if path in changed}
    return RevisionTask(
        issue=ctx.record.source_issue,
        diff=(await create_patch(before, changed)).diff,
        conflicts=True,
        files=tuple(changed),
        test=test,
        test_files=files,
        test_diff=(await create_patch(code, added)).diff if added else "",
        command=ctx.record.command,
    )


async def _revise(ctx: PullRun, code: Codebase, task: RevisionTask) -> Revision:
    return await ctx.runner.revise(
        await ctx.build_job(code, task.issue), task, ctx.work, on_progress=lambda _: None
    )


async def _commit(
    ctx: PullRun, at: Checkout, parent: CommitSha, diff: str, title: str, body: str
) -> CommitSha:
    """Commit a diff. Dated by the run, so each try makes the same commit."""
    record, identity = ctx.record, ctx.repo.identity
    co_author = await ctx.repo.find_co_author(record.asked_by)
    return await create_commit(
        at.git_dir,
        parent=parent,
        diff=diff,
        message=record.commit_style.format_message(title, line(body, 1000), identity, co_author),
        author=identity,
        at=ctx.run.created_at,
    )


async def _push(
    ctx: PullRun, sha: CommitSha, *, expected: CommitSha, edit: Patch, onto: CommitSha | None = None
) -> PullRun:
    """Push the commits up to `sha` to the branch; if a person has pushed since, hand it over.

    They stand on `expected`, the branch's head, or on the commit `onto` of the base branch.

    Raises:
        Superseded, PublishRefused; `edit` is kept for the comment.
    """
    try:
        return await _push_commits(ctx, sha, expected, onto)
    except PublishRefused:
        await ctx.work.save(UNPUBLISHED_KEY, edit)
        raise


async def _push_commits(
    ctx: PullRun, sha: CommitSha, expected: CommitSha, onto: CommitSha | None
) -> PullRun:
    record, style = ctx.record, ctx.record.commit_style
    message = style.format_message(
        style.format_title("chore", f"Merge {ctx.base_branch}"), "",
        ctx.repo.identity, await ctx.repo.find_co_author(record.asked_by),
    )  # fmt: skip
    ready = await prepare_push(
        ctx, base=onto or record.base, since=onto or expected, head=sha,
        message="" if onto else message,
    )  # fmt: skip
    sha = ready.head
    if ctx.pull.head_sha != sha:
        now = await ctx.repo.pulls.get(ctx.pull.number)
        if now is None or now.state != "open":
            raise Superseded
        ctx = await ctx.update_record(pending_head=sha)
        try:
            await ctx.repo.count_push()
            git_dir = ctx.mirrors.path_of(ctx.remote, ctx.facts.full_name)
            await push(git_dir, ctx.remote, sha=sha, branch=record.branch, expected=expected)
        except PushRejected:
            there = await ctx.repo.get_branch_head(record.branch)
            if there == expected:
                raise
            ctx = await ctx.update_record(pending_head="")
            if there is not None and ctx.record.is_ours(there):  # by `use`
                raise Superseded from None
            moved = await ctx.repo.pulls.get(ctx.pull.number)
            if moved is None or moved.state != "open":
                raise Superseded from None
            ctx = await keep_or_hand_over(dataclasses.replace(ctx, pull=moved))
            if ctx.record.handed_over:
                return ctx
            raise Superseded from None
    ctx = dataclasses.replace(ctx, pull=replace(ctx.pull, head_sha=sha))
    return await ctx.update_record(head=sha, pending_head="", base=ready.base)


async def keep_or_hand_over(ctx: PullRun) -> PullRun:
    """Go on from a head that leads to ours by merges of the base branch alone, as GitHub's button
    *Update branch* makes them, and by commits of those whom `follow_up` names; or that is ours on a
    newer base, as *Update with rebase* makes it. Any other is its author's."""
    commits = {one.sha: one for one in await ctx.repo.pulls.list_commits(ctx.pull.number)}
    chain: list[CommitFacts] = []
    at = ctx.pull.head_sha
    while at in commits and not ctx.record.is_ours(at):
        chain.append(commits[at])
        at = next(iter(commits[at].parents), CommitSha(""))
    base: CommitSha | None = ctx.record.base if ctx.record.is_ours(at) else None
    for commit in reversed(chain):
        merged = commit.parents[1:]
        if base is None or any(one in commits for one in merged):
            base = None
        elif merged:
            base = merged[0] if await _is_update(ctx, commit, base) else None
        elif not is_named(commit.account, ctx.config.follow_up):
            base = None
    if base is None:
        at, base = ctx.record.head, await _find_newer_base(ctx, list(commits.values()))
    if base is None:
        return await hand_over(ctx)
    await _note_head(ctx, at)
    return await ctx.update_record(head=ctx.pull.head_sha, pending_head="", base=base)


async def _find_newer_base(ctx: PullRun, commits: Sequence[CommitFacts]) -> CommitSha | None:
    """The commit of the base branch on which the head holds what ours does; None if it does not."""
    shas = [one.sha for one in commits]
    if not shas or any(len(one.parents) != 1 for one in commits):
        return None
    onto, head, record = commits[0].parents[0], ctx.pull.head_sha, ctx.record
    if [onto, *shas][:-1] != [one.parents[0] for one in commits] or shas[-1] != head:
        return None
    try:
        for one in (head, record.head, record.base, onto):
            place = await ctx.fetch(one)
    except RepositoryGone:  # GitHub keeps no head that nothing leads to for ever
        return None
    same = await is_merge_of(
        place.git_dir, head,
        base=record.base, ours=record.head, theirs=onto, identity=ctx.repo.identity,
    )  # fmt: skip
    return onto if same else None


async def _is_update(ctx: PullRun, commit: CommitFacts, base: CommitSha) -> bool:
    """Whether it merges the base branch into ours and changes nothing beside."""
    ours, theirs = commit.parents[:2]
    for one in (commit.sha, ours, theirs, base):
        place = await ctx.fetch(one)
    same = await is_merge_of(
        place.git_dir, commit.sha, base=base, ours=ours, theirs=theirs, identity=ctx.repo.identity
    )
    return same and len(commit.parents) == 2


async def _note_head(ctx: PullRun, before: CommitSha) -> None:
    """The head holds the same edit as the one `before`: `use` may put another in its place."""
    run_id = find_run(ctx.pull.body or "")
    store = ctx.storage.checkpoints(run_id, ctx.lease.in_flight) if run_id else None
    run = await ctx.storage.runs.get_readable(run_id) if run_id else None
    if store is None or run is None:
        return
    history = await store.load(BRANCH_HISTORY_KEY, BranchHistory) or BranchHistory.from_run(run)
    if state := history.state_at(before):
        head = replace(state, head=ctx.pull.head_sha)
        await store.save(BRANCH_HISTORY_KEY, replace(history, states=(*history.states, head)))


async def hand_over(ctx: PullRun) -> PullRun:
    """Leave the branch to the person who pushed to it; comment that once."""
    await ctx.comment_once(Note.HANDED_OVER, make_marker("handed-over", str(ctx.pull.number)))
    return await ctx.update_record(handed_over=True, pending_head="")
