"""Executes queued requests: checks who gave a command, acknowledges it, calls its verb."""

import logging
from contextlib import suppress
from dataclasses import dataclass, replace

from bot.admission.check import refuse
from bot.admission.repository_settings import read_config
from bot.admission.trust import is_trusted
from bot.commands.command import Answer, CommandContext, Verb
from bot.commands.remarks import answer_mention, answer_remark
from bot.commands.verbs import VERBS, is_stopped_since, start_run
from bot.comments import replies
from bot.comments.replies import Reply
from bot.data.refusal import Stranger
from bot.data.request import (
    CommandRequest,
    ConfigCheckRequest,
    IssueRemark,
    PullUpdate,
    RunRequest,
    SetUpRequest,
    StartOutcome,
)
from bot.errors import Forbidden, NotFound, RunFailed, TryLater, describe_cause, translate_errors
from bot.followup.feedback import WRITERS, acknowledge_comment
from bot.followup.schedule import RETRY_SECONDS, schedule_follow_up
from bot.github.app import GitHubApp
from bot.github.repository import Repository
from bot.github.repository_api import Reaction
from bot.queue.jobs import RetryLater, RunQueue
from bot.repo_config.model import LayerProblem
from bot.runs.config_check import check_config
from bot.runs.set_up import set_up
from bot.safe_text import code, make_marker
from bot.settings import Settings
from bot.storage.requests import QueuedRequest
from bot.webhooks.command_text import is_talk, nearest_verb
from prompts.text import join_names

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CommandDispatcher:
    """The worker's `ExecuteRequest`."""

    settings: Settings
    github: GitHubApp

    async def __call__(self, item: QueuedRequest, queue: RunQueue) -> RetryLater | None:
        """Execute a request; returns `RetryLater` if it must run again. See `ExecuteRequest`."""
        request = item.request
        if isinstance(request, ConfigCheckRequest):
            await check_config(request, self.github)
            return None
        if isinstance(request, SetUpRequest):
            await set_up(request, self.github, self.settings, queue)
            return None
        if isinstance(request, PullUpdate):
            await self._acknowledge(item, request, queue)
            return await schedule_follow_up(item, request, queue, self.settings)
        try:
            with translate_errors():
                if isinstance(request, IssueRemark):
                    async with self.github.open_repository(request.repo) as repo:
                        return await answer_remark(repo, request, queue, self.settings)
                if isinstance(request, RunRequest):
                    return await self._start_run(item, request, queue)
                if item.is_waiting and await is_stopped_since(request, queue.runs):
                    return None
                if (
                    item.is_waiting
                    and await queue.runs.get_current(request.repo, request.issue) is not None
                ):
                    return RetryLater(item, RETRY_SECONDS)
                async with self.github.open_repository(request.repo, about=request.issue) as repo:
                    return await self._execute(repo, item, request, queue)
        except RunFailed as ended:  # gone, locked or forbidden: no reply is possible
            cause = describe_cause(ended)
            logger.warning("Command %s: %s: %s", request.id, ended.failure.value, cause)
            return None

    async def _acknowledge(self, item: QueuedRequest, update: PullUpdate, queue: RunQueue) -> None:
        """React to a reviewer's words at once: the run that follows them may wait."""
        if not (update.comment or update.review) or item.is_waiting:
            return
        record = await queue.storage.pulls.get(update.repo, update.number)
        if record is None:
            return
        try:
            with translate_errors():
                async with self.github.open_repository(update.repo) as repo:
                    if not await is_trusted(repo, update.by, WRITERS):
                        return
                    found = await read_config(repo)
                    if isinstance(found, LayerProblem) or not found.config.follows_reviews:
                        return
                    if record.handed_over:
                        marker = make_marker("handed-over-answer", str(record.pull))
                        body = f"{Reply.HANDED_OVER}\n\n{marker}\n"
                        await repo.issues.comment_once(record.pull, marker, body)
                    elif update.comment:
                        await acknowledge_comment(repo, update.comment)
                    else:
                        await repo.pulls.react_to_review(update.review, "eyes")
        except (RunFailed, TryLater):  # the run also reacts
            return

    async def _start_run(
        self, item: QueuedRequest, request: RunRequest, queue: RunQueue
    ) -> RetryLater | None:
        """Start the run of a label that was added during another run; a stop removes the label."""
        if await is_stopped_since(request, queue.runs):
            async with self.github.open_repository(request.repo, about=request.issue) as repo:
                await repo.issues.remove_label(request.issue, request.label)
            return None
        outcome = await start_run(request, request.mode, queue)
        return RetryLater(item, RETRY_SECONDS) if outcome is StartOutcome.RUNNING else None

    async def _execute(
        self, repo: Repository, item: QueuedRequest, request: CommandRequest, queue: RunQueue
    ) -> RetryLater | None:
        command = request.command
        verb = VERBS.get(command.verb or "help")
        meant = nearest_verb(command.verb, VERBS)
        talks = is_talk(command)
        found = await read_config(repo)
        ctx = CommandContext(item, request, repo, queue, self.settings, found)
        if not ctx.config.enabled:
            return None
        if not await is_trusted(repo, request.by, ctx.config.trust):
            if talks or not command.begins_line:
                return None
            # Strangers must not use up the writes for others.
            async with self.github.open_repository(request.repo, minor=True) as minor:
                ctx = replace(ctx, repo=minor)
                refused, refusals = Stranger(ctx.config.trust), queue.storage.refusals
                await refuse(
                    refusals, minor, request.issue, request.by, refused, request_id=request.id
                )
                return await _reply_and_react(ctx, None, "confused")
        with suppress(Forbidden, NotFound):  # the comment may be deleted, the issue locked
            await ctx.react("eyes")
        if talks:
            return await _reply_and_react(ctx, await answer_mention(ctx), "+1")
        if not command.begins_line:
            known = command.verb if verb is not None else "help"
            answer = Reply.IN_MID_LINE.format(name=self.settings.app_name, verb=known)
        elif verb is None:
            answer = replies.no_such_verb(self.settings.app_name, command.verb, meant)
        elif request.location not in verb.places:
            answer = Reply.WRONG_PLACE.format(verb=code(command.verb, 40))
        else:
            return await _carry_out(ctx, verb)
        return await _reply_and_react(ctx, answer, "confused")


async def _carry_out(ctx: CommandContext, verb: Verb) -> RetryLater | None:
    answer, others = await verb.handler(ctx), ctx.request.command.others
    if others and not isinstance(answer, RetryLater):
        left = Reply.OTHERS_LEFT.format(verbs=join_names([f"`{one}`" for one in others]))
        answer = "\n\n".join(filter(None, (answer, left)))
    return await _reply_and_react(ctx, answer, "+1")


async def _reply_and_react(
    ctx: CommandContext, answer: Answer, reaction: Reaction
) -> RetryLater | None:
    """Reply, then replace the eyes by `reaction`; they stay while the command waits."""
    if isinstance(answer, RetryLater):
        return answer
    if answer is not None:
        await ctx.reply(answer)
    with suppress(Forbidden, NotFound):
        await ctx.react(reaction)
        await ctx.unreact("eyes")
    return None
