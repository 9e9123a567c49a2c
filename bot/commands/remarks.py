"""Answers what people say without a command: on the issue of a run, or to us."""

from contextlib import suppress

from bot.admission.repository_settings import read_config
from bot.admission.trust import is_trusted
from bot.commands.command import CommandContext
from bot.comments.replies import Reply
from bot.data.request import CommandRequest, IssueRemark
from bot.data.run import Mode, Run
from bot.errors import Forbidden, NotFound
from bot.github.repository import Repository
from bot.queue.jobs import RunQueue
from bot.repo_config.model import EffectiveConfig
from bot.safe_text import make_marker
from bot.settings import Settings


async def answer_remark(
    repo: Repository, said: IssueRemark, queue: RunQueue, settings: Settings
) -> None:
    """React to what a trusted person says during a run, whose status comment counts it.

    What comes too late for the run is answered, once.
    """
    run = await _find_hearing_run(said, queue)
    if run is None:
        return
    found = await read_config(repo)
    if not isinstance(found, EffectiveConfig) or not found.config.enabled:
        return
    if await is_trusted(repo, said.by, found.config.trust):
        with suppress(Forbidden, NotFound):  # it is deleted, or the issue locked
            await repo.issues.reactions("comments", said.remark).add("eyes")
        await _answer_late(repo, run, queue, settings)


async def answer_mention(ctx: CommandContext) -> str | None:
    """Answer talk to us: the run hears it, or we say what we understand.

    Thanks get the reaction alone; that we are named in mid-line is answered once on an issue.
    """
    request, settings = ctx.request, ctx.settings
    run = await _find_hearing_run(request, ctx.queue)
    if run is not None:
        await _answer_late(ctx.repo, run, ctx.queue, settings)
        return None
    command, text = request.command, Reply.MENTION.format(name=settings.app_name)
    if not command.begins_line:
        marker = make_marker("mention", str(request.issue))
        await ctx.repo.issues.comment_once(request.issue, marker, f"{text}\n\n{marker}\n")
        return None
    is_question = bool(command.words) and command.words[-1].endswith("?")
    return text if is_question or not command.verb else None


async def _answer_late(repo: Repository, run: Run, queue: RunQueue, settings: Settings) -> None:
    """Say, once in a run, that nothing begins any more that could know what was said."""
    progress = await queue.storage.progress.load(run.id)
    if "choice" in progress.stages:
        marker = make_marker("too-late", run.id)
        text = Reply.TOO_LATE_TO_HEAR.format(name=settings.app_name)
        body = f"{text}\n\n{marker}\n"
        await repo.issues.comment_once(run.issue, marker, body, since=run.created_at)


async def _find_hearing_run(said: IssueRemark | CommandRequest, queue: RunQueue) -> Run | None:
    """The run of the issue that began before `said`: a later one reads the whole discussion."""
    run = await queue.runs.get_current(said.repo, said.issue)
    if run is None or run.started_at is None or run.mode not in (Mode.FIX, Mode.AUTO):
        return None
    return run if said.at >= run.started_at.replace(microsecond=0) else None
