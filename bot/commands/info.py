"""The verbs that only reply."""

from __future__ import annotations

from bot.commands.candidates import list_edits
from bot.commands.command import CommandContext
from bot.commands.config import propose_config
from bot.comments import replies
from bot.comments.config import render_config
from bot.queue.consumer import RetryLater
from bot.queue.position import load_queue
from bot.repo_config.layers import LayerProblem
from bot.storage.checkpoints import RedisStore
from bot.types import CommentLocation, Run, RunStatus, replace
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.solve import OUTCOME_KEY, SolveResult


async def show_status(ctx: CommandContext) -> RetryLater | None:
    """Reply with the state of the current run, or of the latest; for our pull requests, too."""
    run = await ctx.queue.runs.get_current(ctx.request.repo, ctx.request.issue)
    run = await (_load_latest_run(ctx) if run is None else _with_spending(ctx, run))
    if run is None:
        await ctx.reply(_no_run_reply(ctx))
        return None
    queue = await load_queue(ctx.queue.storage) if run.status is RunStatus.QUEUED else []
    wait = next((waiting.position for waiting in queue if waiting.run.id == run.id), None)
    at_work = run.status is not RunStatus.QUEUED and not run.status.final
    progress = await ctx.queue.storage.progress.load(run.id) if at_work else None
    await ctx.reply(replies.run_status(run, wait, progress))
    return None


async def explain(ctx: CommandContext) -> RetryLater | None:
    """Reply with the reasons for the latest run's result: its votes and its findings."""
    run = await _load_latest_run(ctx)
    if run is None:
        await ctx.reply(_no_run_reply(ctx))
        return None
    solved = await _store(ctx, run).load(OUTCOME_KEY, SolveResult)
    result = solved.result if solved else None
    await ctx.reply(replies.run_explanation(run, result, await list_edits(ctx)))
    return None


async def show_config(ctx: CommandContext) -> RetryLater | None:
    """Reply with the effective settings and their sources; `propose` opens a pull request."""
    if "propose" in (word.casefold() for word in ctx.request.command.words):
        await propose_config(ctx)
        return None
    found = ctx.loaded_config
    if isinstance(found, LayerProblem):
        await ctx.reply(replies.invalid_config(found))
    else:
        await ctx.reply(render_config(found))
    return None


async def show_help(ctx: CommandContext) -> RetryLater | None:
    """Reply with the list of verbs."""
    rows = [(f"{name} {verb.words}".strip(), verb.summary) for name, verb in ctx.verbs.items()]
    await ctx.reply(replies.help_text(ctx.settings.app_name, rows, ctx.settings.label))
    return None


async def _load_latest_run(ctx: CommandContext) -> Run | None:
    """The latest run of the issue, or of the issue that our pull request fixes."""
    request, runs = ctx.request, ctx.queue.runs
    issue = request.issue
    if request.location is CommentLocation.PULL:
        record = await ctx.queue.storage.pulls.get(request.repo, request.issue)
        if record is None:
            return None
        issue = record.issue
    run = await runs.get_latest_readable(request.repo, issue)
    return None if run is None else await _with_spending(ctx, run)


def _no_run_reply(ctx: CommandContext) -> str:
    if ctx.request.location is CommentLocation.PULL:
        return replies.foreign_pull()
    return replies.no_run(ctx.settings.app_name)


async def _with_spending(ctx: CommandContext, run: Run) -> Run:
    """`run` with the dollars that it has spent by now."""
    ledger = await _store(ctx, run).load(LEDGER_KEY, Ledger)
    return replace(run, dollars=max(run.dollars, ledger.dollars if ledger else 0.0))


def _store(ctx: CommandContext, run: Run) -> RedisStore:
    return ctx.queue.storage.checkpoints(run.id)
