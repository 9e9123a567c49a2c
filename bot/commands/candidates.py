"""The verbs that choose among existing edits: `judge` other people's, `use` another of ours."""

from __future__ import annotations

import re
from typing import Final

from bot.commands.command import CommandContext
from bot.commands.run import start_command, wait_for_run
from bot.comments import candidates as replies
from bot.queue.consumer import RetryLater
from bot.storage.branch_history import BranchHistory, rank_candidates
from bot.storage.keys import BRANCH_HISTORY_KEY
from bot.storage.runs import StartOutcome, latest_published
from bot.types import CommentLocation, Mode, Run
from pipeline.solve import OUTCOME_KEY, SolveResult
from pipeline.types import Selection

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
    """Start a run that puts another edit of an earlier run into its pull request."""
    request, queue = ctx.request, ctx.queue
    source = await _find_source(ctx)
    if source is None or source.pull_request is None:
        await ctx.reply(replies.nothing_to_use())
        return None
    candidates = await _load_candidates(ctx, source)
    if candidates is None:
        await ctx.reply(replies.candidates_expired(source.pull_request))
        return None
    numbers = request.command.numbers
    if len(numbers) != 1 or not 1 <= numbers[0] <= len(rank_candidates(candidates.selection)):
        await ctx.reply(replies.which_candidate(ctx.settings.app_name, candidates))
        return None
    result = await queue.runs.create(
        request.repo,
        source.issue,
        asked_by=request.by,
        delivery=request.id,
        join=False,
        mode=Mode.USE,
        candidate=numbers[0],
        published_run=source.id,
        base_commit=source.base_commit,
        asked_at=request.at,
        confirmed=True,
    )
    if result.outcome is StartOutcome.CREATED:
        await queue.nudges.send(result.run_id, 0)
        if request.location is CommentLocation.PULL:
            await ctx.reply(replies.answer_on_issue(source.issue))
    return await wait_for_run(ctx, result.outcome)


async def list_edits(ctx: CommandContext) -> str:
    """The edits that `use` can choose from, for `explain`; empty when there is no choice.

    They belong to the latest run that opened a pull request; later runs do not matter.
    """
    source = await _find_source(ctx)
    candidates = None if source is None else await _load_candidates(ctx, source)
    if candidates is None or len(rank_candidates(candidates.selection)) < 2:
        return ""
    return replies.candidates_reply(ctx.settings.app_name, candidates)


async def _load_candidates(ctx: CommandContext, source: Run) -> replies.PullCandidates | None:
    """The edits of `source`; None when they have expired."""
    store = ctx.queue.storage.checkpoints(source.id)
    solved = await store.load(OUTCOME_KEY, SolveResult)
    if solved is None or not isinstance(solved.result, Selection) or source.pull_request is None:
        return None
    contents = await store.load(BRANCH_HISTORY_KEY, BranchHistory) or BranchHistory.from_run(source)
    pull = await ctx.repo.pulls.get(source.pull_request)
    state = contents.state_at(pull.head_sha) if pull else None
    return replies.PullCandidates(
        solved.result, source.pull_request, state.candidate if state else None
    )


async def _find_source(ctx: CommandContext) -> Run | None:
    """The run that opened this pull request, or the latest pull request of this issue."""
    request, runs = ctx.request, ctx.queue.runs
    if request.location is CommentLocation.ISSUE:
        run_id = latest_published(await runs.get_latest_readable(request.repo, request.issue))
    else:
        pull = await ctx.repo.pulls.get(request.issue)
        ours = pull is not None and pull.author == ctx.repo.identity.login
        found = _RUN_MARKER.search(pull.body or "") if pull and ours else None
        run_id = found[1] if found else ""
    run = await runs.get_readable(run_id) if run_id else None
    if run is None or run.repo.full_name.lower() != request.repo.full_name.lower():
        return None
    here = request.location is CommentLocation.ISSUE or run.pull_request == request.issue
    return run if here else None
