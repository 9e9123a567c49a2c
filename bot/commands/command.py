"""What a verb is, and what it has to work with.

A new verb is one function of this kind in a file of its own, and one line in `VERBS`
(`bot/commands/dispatch.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple

from bot.comments import replies
from bot.github.reactions import Reaction, Reactions
from bot.github.repository import Repository
from bot.queue.consumer import RetryLater, RunQueue
from bot.repo_config.layers import EffectiveConfig, LayerProblem
from bot.repo_config.model import RepoConfig
from bot.settings import Settings
from bot.storage.requests import QueuedRequest
from bot.triggers.requests import CommandRequest
from bot.types import CommentLocation

MAX_CLOCK_SKEW: Final = timedelta(hours=1)
"""By how much GitHub's clock and ours may differ, at most."""


@dataclass(frozen=True)
class CommandContext:
    """A command of somebody who may give it. Effects are find-or-create: it may come up again."""

    item: QueuedRequest
    request: CommandRequest
    repo: Repository
    queue: RunQueue
    settings: Settings
    loaded_config: EffectiveConfig | LayerProblem
    """The repository's settings, or which file of them is not valid."""
    verbs: Mapping[str, Verb]

    @property
    def config(self) -> RepoConfig:
        """The settings, or the defaults while they are not valid."""
        return (
            self.loaded_config.config
            if isinstance(self.loaded_config, EffectiveConfig)
            else RepoConfig()
        )

    async def reply(self, text: str) -> None:
        """Answer in a comment of its own, once, however often the command comes up."""
        marker = replies.reply_marker(self.request.id)
        await self.repo.issues.comment_once(
            self.request.issue,
            marker,
            f"{text}\n\n{marker}\n",
            since=self.request.at - MAX_CLOCK_SKEW,
        )

    async def react(self, content: Reaction) -> None:
        """Show on the comment itself what became of it."""
        await self._reactions.add(content)

    async def unreact(self, content: Reaction) -> None:
        """Take it back; fine when it is not there."""
        await self._reactions.remove(content)

    @property
    def _reactions(self) -> Reactions:
        """GitHub has another door for comments on lines."""
        if self.request.location is CommentLocation.REVIEW:
            return self.repo.pulls.reactions(self.request.comment, self.repo.issues.is_own)
        return self.repo.issues.reactions("comments", self.request.comment)


CommandHandler = Callable[[CommandContext], Awaitable[RetryLater | None]]
"""Does what the command says; `RetryLater` to be called again. Raises what GitHub and Redis raise."""


class Verb(NamedTuple):
    """One thing that we can be told."""

    summary: str
    """For `help`: what it does, as a sentence."""
    handler: CommandHandler
    words: str = ""
    """For `help`: what may follow it."""
    places: frozenset[CommentLocation] = frozenset({CommentLocation.ISSUE})
    """Where it can be said."""
