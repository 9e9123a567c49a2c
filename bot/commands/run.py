"""The verbs that begin and end runs."""

from __future__ import annotations

from typing import Any

from bot.commands.command import CommandContext, CommandHandler
from bot.comments import replies
from bot.followup.schedule import schedule_follow_up as schedule_follow_up
from bot.queue.consumer import RetryLater
from bot.queue.nudges import Nudges
from bot.storage.runs import Runs, StartOutcome
from bot.triggers.requests import CommandRequest, Delay, PullUpdate, RunRequest
from bot.types import CommentLocation, Mode, Stop, StopReason

RETRY_SECONDS = 0.5
"""How often a command that waits for a run looks whether it is over."""


def start_command(mode: Mode) -> CommandHandler:
    """The verb that asks for a run; it never disturbs the one that the issue has, but waits."""

    async def begin(ctx: CommandContext) -> RetryLater | None:
        request, queue = ctx.request, ctx.queue
        at = await queue.runs.get_stop_time(request.repo, request.issue)
        if at is not None and at > request.at:  # it comes late: whoever stopped knew of it
            return None
        return await wait_for_run(ctx, await start_run(request, mode, queue.runs, queue.nudges))

    return begin


async def wait_for_run(ctx: CommandContext, outcome: StartOutcome) -> RetryLater | None:
    """Come up again while the issue has a run; whoever asked is told that once."""
    if outcome is not StartOutcome.RUNNING:
        return None  # the run says the rest
    if not ctx.item.is_waiting:
        await ctx.reply(replies.command_waits(ctx.settings.app_name))
    return RetryLater(ctx.item.model_copy(update={"is_waiting": True}), RETRY_SECONDS)


async def fix(ctx: CommandContext) -> RetryLater | None:
    """A run of the issue; on a pull request of ours the comment is followed like a review."""
    request = ctx.request
    if request.location is CommentLocation.ISSUE:
        return await start_command(Mode.FIX)(ctx)
    if await ctx.queue.storage.pulls.get(request.repo, request.issue) is None:
        await ctx.reply(replies.foreign_pull())
        return None
    wanted = PullUpdate(
        repo=request.repo,
        target="pull",
        number=request.issue,
        delay=Delay.DEBOUNCED,
        by=request.by,
        delivery=request.id,
    )
    return await schedule_follow_up(ctx.item, wanted, ctx.queue, ctx.settings)


async def start_run(
    request: CommandRequest | RunRequest, mode: Mode, runs: Runs, nudges: Nudges
) -> StartOutcome:
    """Begin the run that is wanted, unless the issue has one; a worker is told.

    A `RunRequest` is a label that came during another run, with which its delivery was answered.
    """
    fields: dict[str, Any]
    if isinstance(request, CommandRequest):
        by = request.by
        pulls = tuple(dict.fromkeys(request.command.numbers)) if mode is Mode.JUDGE else ()
        fields = {"confirmed": request.command.anyway, "pulls": pulls}
    else:
        by, fields = request.asked_by, {"label": request.label}
    result = await runs.create(
        request.repo,
        request.issue,
        asked_by=by,
        delivery=request.id,
        version=request.version,
        join=False,
        mode=mode,
        asked_at=request.at,
        **fields,
    )
    if result.outcome is StartOutcome.CREATED:
        await nudges.send(result.run_id, 0)
    return result.outcome


async def stop(ctx: CommandContext) -> RetryLater | None:
    """Have the run stopped, of the issue or on our pull request, and forget what waits for its end.

    A run that was asked for later is none of those: comments come late and out of order.
    """
    request, runs = ctx.request, ctx.queue.runs
    run = await runs.get_current(request.repo, request.issue)
    result = None if run is None else await runs.get_last_request_time(run)
    if result is not None and result > request.at:
        return None
    wanted = Stop(by=request.by, why=StopReason.COMMAND, at=request.at)
    if await runs.request_stop(request.repo, request.issue, wanted) is None:
        await ctx.reply(replies.nothing_to_stop())
    return None


async def is_stopped_since(request: CommandRequest | RunRequest, runs: Runs) -> bool:
    """Whether people wanted the issue's work to stop since then: that ends what waits, too."""
    at = await runs.get_stop_time(request.repo, request.issue)
    return at is not None and request.at is not None and at >= request.at
