"""The verbs that choose among existing edits: `judge` other people's, `use` another of ours."""

from __future__ import annotations

import re
from typing import Final

from bot.commands.command import CommandContext
from bot.commands.run import start_command, wait_for_run
from bot.comments import candidates as replies
from bot.queue.consumer import RetryLater
from bot.storage.keys import BRANCH_HISTORY_KEY
from bot.storage.pulls import BranchHistory
from bot.storage.runs import latest_published
from bot.triggers.requests import StartOutcome
from bot.types import CommentLocation, Mode, Run, RunId
from pipeline.selection.letters import rank_result, to_rank
from pipeline.types import NoFix, Selection
from pipeline.workflows.outcome import load_end

MAX_PULLS: Final = 20
_RUN_MARKER: Final = re.compile(r"<!-- capuchin:run=([0-9a-f]{32}) -->")


async def judge(ctx: CommandContext) -> RetryLater | None:
    """Start a run that compares pull requests."""
    count = len(set(ctx.request.command.numbers))
    if not 1 <= count <= MAX_PULLS:
        await ctx.reply(replies.which_pulls(ctx.settings.app_name, MAX_PULLS))
        return None
    return await start_command(Mode.JUDGE)(ctx)


async def use(ctx: CommandContext) -> RetryLater | None:
    """Start a run that puts another edit of an earlier run into its pull request, or opens one."""
    request, queue = ctx.request, ctx.queue
    source, candidates = await _find_candidates(ctx)
    if source is None:
        await ctx.reply(replies.nothing_to_use())
        return None
    if candidates is None:
        await ctx.reply(replies.candidates_expired(source.pull_request))
        return None
    name, command = ctx.settings.app_name, request.command
    rank = None if command.letter is None else to_rank(command.letter)
    if rank is None and command.numbers:
        await ctx.reply(replies.letters_instead(name, candidates))
        return None
    if rank is None or rank >= len(rank_result(candidates.result)):
        await ctx.reply(replies.which_candidate(name, candidates))
        return None
    result = await queue.runs.create(
        request.repo,
        source.issue,
        asked_by=request.by,
        delivery=request.id,
        join=False,
        mode=Mode.USE,
        candidate=rank + 1,
        anyway=command.anyway,
        published_run=source.id,
        base_commit=source.base_commit,
        asked_at=request.at,
        confirmed=True,
    )
    if result.outcome is StartOutcome.CREATED:
        await queue.nudges.send(result.run_id, 0, Mode.USE.lane)
        if request.location is CommentLocation.PULL:
            await ctx.reply(replies.answer_on_issue(source.issue))
    return await wait_for_run(ctx, result.outcome)


async def list_edits(ctx: CommandContext) -> str:
    """The edits that `use` can choose from, for `explain`; empty when there is no choice.

    They belong to the latest run that opened a pull request or ended without a fix.
    """
    _, candidates = await _find_candidates(ctx)
    if candidates is None:
        return ""
    if candidates.pull is not None and len(rank_result(candidates.result)) < 2:
        return ""
    return replies.candidates_reply(ctx.settings.app_name, candidates)


async def _find_candidates(ctx: CommandContext) -> tuple[Run | None, replies.PullCandidates | None]:
    """The run whose edits are to be used, and these; no edits where they have expired.

    A run that ended without a fix and kept no edit gives way to the one before it.
    """
    source = await _find_source(ctx)
    while source is not None:
        found = await _load_candidates(ctx, source)
        if found is not None or source.pull_request is not None:
            return source, found
        earlier = source.published_run
        source = await ctx.queue.runs.get_readable(earlier) if earlier else None
    return None, None


async def _load_candidates(ctx: CommandContext, source: Run) -> replies.PullCandidates | None:
    """The edits of `source`; None when they have expired."""
    store = ctx.queue.storage.checkpoints(source.id)
    result = await load_end(store)
    if isinstance(result, NoFix) and result.edits is not None:
        return replies.PullCandidates(result, None, None)
    if not isinstance(result, Selection) or source.pull_request is None:
        return None
    contents = await store.load(BRANCH_HISTORY_KEY, BranchHistory) or BranchHistory.from_run(source)
    pull = await ctx.repo.pulls.get(source.pull_request)
    state = contents.state_at(pull.head_sha) if pull else None
    return replies.PullCandidates(result, source.pull_request, state.candidate if state else None)


async def _find_source(ctx: CommandContext) -> Run | None:
    """The run that opened this pull request, or the latest pull request of this issue."""
    request, runs = ctx.request, ctx.queue.runs
    if request.location is CommentLocation.ISSUE:
        run_id = latest_published(await runs.get_latest_readable(request.repo, request.issue))
    else:
        pull = await ctx.repo.pulls.get(request.issue)
        ours = pull is not None and pull.author == ctx.repo.identity.login
        found = _RUN_MARKER.search(pull.body or "") if pull and ours else None
        run_id = RunId(found[1]) if found else None
    run = await runs.get_readable(run_id) if run_id else None
    if run is None or run.repo.full_name.lower() != request.repo.full_name.lower():
        return None
    here = request.location is CommentLocation.ISSUE or run.pull_request == request.issue
    return run if here else None
