"""`/capuchin use B`: replaces the edit in a pull request, or opens one with an edit that has none.

Adds two commits, one that reverts the old edit and one with the new: reviews keep their place and
nothing is force-pushed. A branch with somebody else's commit stays as it is.
Every effect is find-or-create, as in `bot.runs.publish`.
"""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Final

from bot.comments import candidates, pull_request
from bot.data.failure import FailureFacts
from bot.data.github_facts import PullRequestFacts
from bot.data.job import Outcome
from bot.data.pull import BranchState
from bot.data.run import Mode, Run, RunStatus
from bot.errors import PublishRefused, SwapRefused, UnfitDiff
from bot.git.commits import commit_files, create_commit, push, replay_commits
from bot.runs.context import ABSENT_KEY, IssueRun
from bot.runs.further_samples import RESULTS, take_over
from bot.runs.publish import Publication, prepare_publication
from bot.runs.signed_commits import prepare_push
from bot.runs.steps import open_pull, report_no_fix
from bot.storage.checkpoints import RedisStore
from bot.storage.keys import BRANCH_HISTORY_KEY, ISSUE_KEY
from bot.storage.pulls import BranchHistory
from pipeline.codebase.unified_diff import list_paths, remove_files
from pipeline.data.types import CommitSha, Issue, NoFix, Selection
from pipeline.languages.registry import passes_after
from pipeline.models.metering import LEDGER_KEY, Ledger
from pipeline.selection.verdict import rank_result, to_letter
from pipeline.workflows.other_edits import propose_unproven, run_reproduction, substitute_candidate
from pipeline.workflows.outcome import OUTCOME_KEY, SolveResult, load_end, save_end
from sandbox.frozen import replace


async def find_unpublished(ctx: IssueRun) -> tuple[Run, Selection | NoFix] | None:
    """The issue's run that broke off with an answer, if this run is to say or publish that one."""
    run = ctx.run
    if run.mode not in (Mode.FIX, Mode.AUTO) or run.anyway:
        return None
    if run.base_commit and not run.candidate:  # it has begun to work on an edit of its own
        return None
    source = await ctx.storage.runs.get_readable(run.published_run)
    while source is not None and source.is_unpublished:
        answer = await load_end(ctx.storage.checkpoints(source.id, ctx.lease.in_flight))
        if answer is not None:
            await ctx.lease.save(replace(run, candidate=1, base_commit=source.base_commit))
            return source, answer
        source = await ctx.storage.runs.get_readable(source.published_run)
    return None


async def propose_edit(ctx: IssueRun, source: Run) -> Run:
    """Open a pull request with an edit of `source`, which opened none. No model is asked.

    Raises:
        SwapRefused: the edits have expired, no edit has that letter, or it fails the test.
        PublishRefused, SandboxError, GitHubError, GitFailed, LeaseLost.
    """
    run = ctx.run
    kept = ctx.storage.checkpoints(source.id, ctx.lease.in_flight)
    result = await load_end(kept)
    if result is None or (isinstance(result, NoFix) and result.edits is None):
        raise SwapRefused("edits expired")
    if not 1 <= run.candidate <= len(rank_result(result)):
        raise SwapRefused("no such edit")
    issue, ledger = await _adopt(ctx, kept)
    if isinstance(result, Selection):
        selection = await _verify_candidate(ctx, result, issue)
    else:
        selection = propose_unproven(result, run.candidate - 1, by=run.asked_by, issue=issue)
    await ctx.store.save(OUTCOME_KEY, SolveResult(result=selection))
    fix = Outcome(selection, ledger.accounts, sent_to=ledger.sent_to)
    return await open_pull(ctx, fix, issue)


async def give_answer(ctx: IssueRun, source: Run, answer: Selection | NoFix) -> Run:
    """Publish the edit of `source`, or say that it found none; said now, it is not said again.

    Raises:
        As `propose_edit`.
    """
    if isinstance(answer, Selection):
        return await propose_edit(ctx, source)
    await _adopt(ctx, ctx.storage.checkpoints(source.id, ctx.lease.in_flight))
    await save_end(ctx.store, answer)
    return replace(await report_no_fix(ctx, answer), published_run=source.published_run)


async def _adopt(ctx: IssueRun, kept: RedisStore) -> tuple[Issue, Ledger]:
    """Save the issue and the ledger of an earlier run as this run's: later runs look there."""
    await ctx.store.copy_from(kept, ABSENT_KEY)
    saved = await kept.load(ISSUE_KEY, Issue)
    issue = saved or Issue(repository=ctx.run.repo.full_name, title=ctx.issue.title, body="")
    await ctx.store.save(ISSUE_KEY, issue)
    ledger = await kept.load(LEDGER_KEY, Ledger) or Ledger()
    await ctx.store.save(LEDGER_KEY, ledger)
    return issue, ledger


VERIFIED_KEY: Final = "used"


@dataclass(frozen=True)
class SourceRun:
    run: Run
    store: RedisStore
    selection: Selection
    pull: PullRequestFacts
    history: BranchHistory


async def use_candidate(ctx: IssueRun) -> Run:
    """Replace the edit; returns the run's final record, already reported.

    Raises:
        SandboxError, GitHubError, GitFailed, LeaseLost.
    """
    opener = await ctx.storage.runs.get_readable(ctx.run.published_run)
    try:
        if opener is not None and opener.pull_request is None:
            return await propose_edit(ctx, opener)
        source = await _load_source(ctx)
        text = await _swap(ctx, source)
    except SwapRefused as refused:
        ended = replace(
            ctx.run,
            status=RunStatus.REFUSED,
            swap_problem=refused.problem,
            facts=refused.facts,
            pull_request=opener.pull_request if opener else None,
            pull_request_url=opener.pull_request_url if opener else "",
        )
        render = partial(candidates.render_no_swap, ended, refused, ctx.settings.app_name)
        return await ctx.status.finish(ended, render(), brief=render(ended.asked_on))
    swapped = replace(
        ctx.run,
        status=RunStatus.SWAPPED,
        pull_request=source.pull.number,
        pull_request_url=source.pull.html_url,
    )
    return await ctx.status.finish(swapped, text)


async def _load_source(ctx: IssueRun) -> SourceRun:
    lease, run = ctx.lease, ctx.run
    source = await ctx.storage.runs.get_readable(run.published_run)
    if source is None or source.pull_request is None:
        raise SwapRefused("run expired")
    store = ctx.storage.checkpoints(source.id, lease.in_flight)
    solved = await store.load(OUTCOME_KEY, SolveResult)
    pull = await ctx.repo.pulls.get(source.pull_request)
    if solved is None or not isinstance(solved.result, Selection):
        raise SwapRefused("edits expired")
    if pull is None or pull.state != "open":
        raise SwapRefused("pull request closed", source.pull_request)
    if not 1 <= run.candidate <= len(rank_result(solved.result)):
        raise SwapRefused("no such edit")
    contents = await store.load(BRANCH_HISTORY_KEY, BranchHistory) or BranchHistory.from_run(source)
    return SourceRun(source, store, solved.result, pull, contents)


async def _swap(ctx: IssueRun, source: SourceRun) -> str:
    run, number = ctx.run, source.pull.number
    state = source.history.state_at(source.pull.head_sha)
    if state is None:
        record = await ctx.storage.pulls.get(ctx.run.repo, number)
        ours = record is not None and record.is_ours(source.pull.head_sha)
        raise SwapRefused("changed after review" if ours else "pushed by others", number)
    if state.candidate == run.candidate and state.run != run.id:
        raise SwapRefused("already there", number)
    issue = await _load_issue(ctx, source)
    selection = await _verify_candidate(ctx, source.selection, issue)
    publication = await _prepare_publication(ctx, source, selection)
    head = state.head if state.run == run.id else await _push(ctx, source, state, publication)
    await _update_record(ctx, number, head=head, pending_head="", **_name_test(selection))
    await ctx.lease.require()
    body = publication.body(source.run)
    await ctx.repo.pulls.edit(number, title=publication.title, body=body)
    await ctx.lease.require()
    await ctx.storage.runs.create(  # verifies the evidence on the new head
        ctx.run.repo,
        number,
        asked_by=ctx.run.asked_by,
        delivery=f"used-{ctx.run.id}",
        mode=Mode.FOLLOW_UP,
    )
    return candidates.render_swap(ctx.lease.run, number, selection)


def _name_test(selection: Selection) -> dict[str, object]:
    """How the pull request's record names the reproduction test that stays, if one does."""
    test = selection.evidence.reproduction
    if test.is_committed and not passes_after(test):
        return {"test_path": "", "test_files": (), "command": ()}
    files = tuple(sorted(list_paths(test.diff)))
    return {"test_path": test.path, "test_files": files, "command": test.command}


async def _prepare_publication(
    ctx: IssueRun, source: SourceRun, selection: Selection
) -> Publication:
    """The publication of the source run with `selection` as its edit."""
    ledger = await source.store.load(LEDGER_KEY, Ledger) or Ledger()
    fix = Outcome(selection, ledger.accounts, sent_to=ledger.sent_to)
    await ctx.store.copy_from(source.store, ABSENT_KEY)
    publication = await prepare_publication(fix, await _load_issue(ctx, source), ctx)
    asked_by = await ctx.repo.find_co_author(source.run.asked_by)
    return dataclasses.replace(publication, run=source.run, co_author=asked_by)


async def _update_record(ctx: IssueRun, number: int, **fields: object) -> None:
    """Record in the pull request's follow-up record which pushes are ours."""
    await ctx.lease.require()
    seconds = ctx.settings.timings.follow_up_seconds
    await ctx.storage.pulls.change(ctx.run.repo, number, fields, due_in=seconds)


async def _load_issue(ctx: IssueRun, source: SourceRun) -> Issue:
    """The issue as the source run read it; empty once its record has expired."""
    saved = await source.store.load(ISSUE_KEY, Issue)
    return saved or Issue(repository=ctx.run.repo.full_name, title="", body="")


async def _verify_candidate(ctx: IssueRun, chosen: Selection, issue: Issue) -> Selection:
    """The edit with its evidence, after the reproduction test and the suite ran with it.

    `chosen` is the first edit of its run, and needs no further run.
    """
    saved = await ctx.store.load(VERIFIED_KEY, SolveResult)
    if saved and isinstance(saved.result, Selection):
        return saved.result
    at = rank_result(chosen)[ctx.run.candidate - 1]
    first = chosen.evidence.votes.candidates[at] == chosen.candidate
    selection = chosen if first else await _run_tests(ctx, chosen, at, issue)
    await ctx.store.save(VERIFIED_KEY, SolveResult(result=selection))
    return selection


async def _run_tests(ctx: IssueRun, chosen: Selection, at: int, issue: Issue) -> Selection:
    job = await ctx.build_job(await ctx.open_codebase(), issue)
    await take_over(ctx, RESULTS)
    async with (
        ctx.show_progress() as report,
        ctx.runner.open_workspace(job, ctx.store, report) as workspace,
    ):
        letter, proof = to_letter(ctx.run.candidate - 1), chosen.evidence
        workspace.say(f"Running the reproduction test with edit {letter}.")
        patch = proof.votes.candidates[at].patch
        after = await run_reproduction(proof.reproduction, patch, workspace)
        test = replace(proof.reproduction, after=after)
        if not (passes_after(test) or ctx.run.anyway):
            raise SwapRefused("test fails", test=test)
        workspace.say(f"Running this repository's tests with edit {letter}.")
        return await substitute_candidate(
            chosen, at, test=test, by=ctx.run.asked_by, issue=job.issue, workspace=workspace
        )


async def _push(
    ctx: IssueRun, source: SourceRun, state: BranchState, publication: Publication
) -> CommitSha:
    run, lease, number = ctx.run, ctx.lease, source.pull.number
    record = await ctx.storage.pulls.get(run.repo, number)
    base = record.base if record else ctx.checkout.base
    try:
        local = await _create_commits(ctx, state, publication, base)
    except UnfitDiff as unfit:
        raise SwapRefused("forbidden path", facts=FailureFacts(words=str(unfit))) from unfit
    if local is None:
        raise SwapRefused("edit conflicts", number)
    title = publication.commit_style.format_title("chore", f"Merge {ctx.base_branch}")
    try:
        ready = await prepare_push(
            ctx, base=base, since=state.head, head=local,
            message=publication.commit_message(title, "", ctx.repo.identity),
        )  # fmt: skip
        await ctx.repo.count_push()
        await lease.require()
        state_now = BranchState(head=ready.head, candidate=run.candidate, run=run.id)
        noted = BranchHistory(states=(*source.history.states, state_now))
        await source.store.save(BRANCH_HISTORY_KEY, noted)
        await _update_record(ctx, number, pending_head=ready.head)
        await push(
            ctx.checkout.git_dir, ctx.remote,
            sha=ready.head, branch=source.run.branch, expected=state.head,
        )  # fmt: skip
    except PublishRefused as refused:
        edit = publication.selection
        raise SwapRefused("push rejected", number, facts=refused.facts, edit=edit) from None
    await _update_record(ctx, number, base=ready.base)
    return ready.head


async def _create_commits(
    ctx: IssueRun, state: BranchState, publication: Publication, base: CommitSha
) -> CommitSha | None:
    """Revert the old edit, then commit the new. Dated by the run: each try makes the same two.

    None if the edit, which fits the run's base commit, conflicts with `base`.
    """
    run, start, selection = ctx.run, ctx.checkout.base, publication.selection
    await ctx.fetch(base)
    await ctx.fetch(state.head)
    author, at = ctx.repo.identity, run.created_at
    git_dir, proof = ctx.checkout.git_dir, selection.evidence.reproduction
    test, diff = start, selection.candidate.patch.diff
    if proof.is_committed and passes_after(proof):  # it stays
        diff = remove_files(diff, list_paths(proof.diff))
        test = await create_commit(
            git_dir, parent=start, diff=proof.diff,
            message=pull_request.reproduction_title(run.issue), author=author, at=at,
        )  # fmt: skip
    kept = await replay_commits(git_dir, onto=base, since=start, head=test, identity=author)
    if kept is None:
        return None
    back = publication.commit_style.format_title("revert", pull_request.revert_title(run.asked_by))
    undone = await commit_files(
        git_dir, state.head, files=kept,
        message=publication.commit_message(back, "", author), author=author, at=at,
    )  # fmt: skip
    message = publication.commit_message(
        publication.title, pull_request.commit_body(selection), author
    )
    edited = await create_commit(
        git_dir, parent=test, diff=diff, message=message, author=author, at=at
    )
    return await replay_commits(git_dir, onto=undone, since=test, head=edited, identity=author)
