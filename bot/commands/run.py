"""The verbs that start and stop runs."""

from __future__ import annotations

from typing import Any

from bot.commands.command import CommandContext, CommandHandler
from bot.comments import replies
from bot.followup.schedule import schedule_follow_up as schedule_follow_up
from bot.queue.consumer import RetryLater
from bot.queue.nudges import Nudges
from bot.storage.runs import Runs
from bot.triggers.requests import CommandRequest, Delay, PullUpdate, RunRequest, StartOutcome
from bot.types import CommentLocation, Mode, Stop, StopReason, replace

RETRY_SECONDS = 0.5
"""The pause between two looks whether the run that a command waits for has ended."""


def start_command(mode: Mode) -> CommandHandler:
    """A verb that starts a run. While the issue has another run, the command waits."""

    async def begin(ctx: CommandContext) -> RetryLater | None:
        request, queue = ctx.request, ctx.queue
        at = await queue.runs.get_stop_time(request.repo, request.issue)
        if at is not None and at > request.at:  # it arrives late: the stop was meant for it, too
            return None
        return await wait_for_run(ctx, await start_run(request, mode, queue.runs, queue.nudges))

    return begin


async def wait_for_run(ctx: CommandContext, outcome: StartOutcome) -> RetryLater | None:
    """Retry the command while the issue has a run; reply once that it waits."""
    if outcome is not StartOutcome.RUNNING:
        return None  # the run reports on the issue
    if not ctx.item.is_waiting:
        await ctx.reply(replies.command_waits(ctx.settings.app_name))
    return RetryLater(replace(ctx.item, is_waiting=True), RETRY_SECONDS)


async def fix(ctx: CommandContext) -> RetryLater | None:
    """Start a run on an issue; on a pull request of ours, follow the comment like a review."""
    request = ctx.request
    if request.location is CommentLocation.ISSUE:
        return await start_command(Mode.FIX)(ctx)
    if await ctx.queue.storage.pulls.get(request.repo, request.issue) is None:
        await ctx.reply(replies.foreign_pull())
        return None
    update = PullUpdate(
        repo=request.repo,
        target="pull",
        number=request.issue,
        delay=Delay.DEBOUNCED,
        by=request.by,
        delivery=request.id,
    )
    return await schedule_follow_up(ctx.item, update, ctx.queue, ctx.settings)


async def start_run(
    request: CommandRequest | RunRequest, mode: Mode, runs: Runs, nudges: Nudges
) -> StartOutcome:
    """Create the requested run and nudge a worker, unless the issue has a run.

    A `RunRequest` is a label that was added during another run.
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
    """Stop the run of the issue or of our pull request, and drop the commands that wait for it.

    A run that was requested after this command continues: comments arrive late and out of order.
    """
    request, runs = ctx.request, ctx.queue.runs
    run = await runs.get_current(request.repo, request.issue)
    result = None if run is None else await runs.get_last_request_time(run)
    if result is not None and result > request.at:
        return None
    command = Stop(by=request.by, why=StopReason.COMMAND, at=request.at)
    if await runs.request_stop(request.repo, request.issue, command) is None:
        await ctx.reply(replies.nothing_to_stop())
    return None


async def is_stopped_since(request: CommandRequest | RunRequest, runs: Runs) -> bool:
    """Whether a stop came after the request; a stop ends waiting requests, too."""
    at = await runs.get_stop_time(request.repo, request.issue)
    return at is not None and request.at is not None and at >= request.at
