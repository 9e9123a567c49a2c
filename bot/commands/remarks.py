"""Answers what people say without a command: on the issue of a run, or to us."""

from __future__ import annotations

from bot.admission.repository_settings import read_config
from bot.admission.trust import is_trusted
from bot.commands.command import CommandContext
from bot.comments.replies import Reply, answer_to_remark
from bot.data.request import CommandRequest, IssueRemark
from bot.data.run import Mode, Run
from bot.github.repository import Repository
from bot.queue.jobs import RunQueue
from bot.repo_config.model import EffectiveConfig
from bot.safe_text import make_marker
from bot.settings import Settings


async def answer_remark(
    repo: Repository, said: IssueRemark, queue: RunQueue, settings: Settings
) -> None:
    """Tell a trusted person which samples of the run under way will know what they have said."""
    run = await _find_hearing_run(said, queue)
    if run is None:
        return
    found = await read_config(repo)
    if not isinstance(found, EffectiveConfig) or not found.config.enabled:
        return
    if await is_trusted(repo, said.by, found.config.trust):
        marker = make_marker("reply", f"to={said.id}")
        progress = await queue.storage.progress.load(run.id)
        samples = run.more or found.config.samples
        text = answer_to_remark(progress, samples, settings.app_name)
        body = f"@{said.by}: {text}\n\n{marker}\n"
        await repo.issues.comment_once(said.issue, marker, body, since=run.created_at)


async def answer_mention(ctx: CommandContext) -> str | None:
    """Answer talk that begins with our name: the run hears it, or we say what we understand.

    Thanks get the reaction alone.
    """
    run = await _find_hearing_run(ctx.request, ctx.queue)
    if run is None:
        command = ctx.request.command
        if not command.verb or (command.words[-1:] and command.words[-1].endswith("?")):
            return Reply.MENTION.format(name=ctx.settings.app_name)
        return None
    progress = await ctx.queue.storage.progress.load(run.id)
    samples = run.more or ctx.config.samples
    return answer_to_remark(progress, samples, ctx.settings.app_name)


async def _find_hearing_run(said: IssueRemark | CommandRequest, queue: RunQueue) -> Run | None:
    """The run of the issue that began before `said`: a later one reads the whole discussion."""
    run = await queue.runs.get_current(said.repo, said.issue)
    if run is None or run.started_at is None or run.mode not in (Mode.FIX, Mode.AUTO):
        return None
    return run if said.at >= run.started_at.replace(microsecond=0) else None
