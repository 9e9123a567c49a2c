"""The type of a verb, and the context of a command.

To add a verb, write a `CommandHandler` in a file of its own and add a line to `VERBS`
(`bot/commands/verbs.py`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from bot.data.request import CommandRequest
from bot.data.run import CommentLocation
from bot.github.repository import Repository
from bot.github.repository_api import Reaction, Reactions
from bot.queue.jobs import RetryLater, RunQueue
from bot.repo_config.model import EffectiveConfig, LayerProblem, RepoConfig
from bot.safe_text import code, make_marker
from bot.settings import Settings
from bot.storage.requests import QueuedRequest


@dataclass(frozen=True)
class CommandContext:
    """A command from a person who may give it. It may run again: effects are find-or-create."""

    item: QueuedRequest
    request: CommandRequest
    repo: Repository
    queue: RunQueue
    settings: Settings
    loaded_config: EffectiveConfig | LayerProblem

    @property
    def config(self) -> RepoConfig:
        loaded = self.loaded_config
        return loaded.config if isinstance(loaded, EffectiveConfig) else RepoConfig()

    async def reply(self, text: str) -> None:
        """Answer in a new comment, once for each command, which it quotes."""
        marker, command = make_marker("reply", f"to={self.request.id}"), self.request.command
        asked = " ".join(filter(None, (command.verb, *command.words)))
        quote = f"> {code(f'/{self.settings.app_name} {asked}'.rstrip(), 120)}"
        await self.repo.issues.comment_once(
            self.request.issue,
            marker,
            f"{quote}\n\n{text}\n\n{marker}\n",
            since=self.request.at - timedelta(hours=1),  # the clocks may differ
        )

    async def react(self, content: Reaction) -> None:
        if self.request.location is CommentLocation.REVIEW_TEXT:
            await self.repo.pulls.react_to_review(self.request.node_id, content)
        else:
            await self._reactions.add(content)

    async def unreact(self, content: Reaction) -> None:
        if self.request.location is CommentLocation.REVIEW_TEXT:
            await self.repo.pulls.take_back_reaction(self.request.node_id, content)
        else:
            await self._reactions.remove(content)

    @property
    def _reactions(self) -> Reactions:
        """GitHub has a separate endpoint for comments on lines."""
        if self.request.location is CommentLocation.REVIEW:
            return self.repo.pulls.reactions(self.request.comment, self.repo.issues.is_own)
        return self.repo.issues.reactions("comments", self.request.comment)


Answer = RetryLater | str | None
"""What a command gets: to be called again, a reply, or nothing but a reaction."""
CommandHandler = Callable[[CommandContext], Awaitable[Answer]]
"""Executes one command.

Raises:
    GitHubError, RedisError: the command is tried again.
"""


class Verb(NamedTuple):
    summary: str
    handler: CommandHandler
    words: str = ""
    places: frozenset[CommentLocation] = frozenset({CommentLocation.ISSUE})
