"""Who may command the bot, and whose words a model reads.

Anybody can write on a public issue. Comments of strangers are left out or marked. Comments that
untrusted people wrote or edited after the request are always left out, because the requester cannot
have read them (a race between check and use).
"""

from collections.abc import AsyncIterable, Iterable
from datetime import datetime

from bot.data.github_facts import CommentFacts, IssueFacts
from bot.data.run import IssueVersion, Login, SkippedComments, is_app
from bot.github.repository import Repository
from bot.repo_config.model import RepoConfig
from bot.webhooks.command_text import is_talk, parse_command
from sandbox.frozen import replace

ROLES = {
    "write": frozenset({"admin", "maintain", "write"}),
    "triage": frozenset({"admin", "maintain", "write", "triage"}),
}


async def is_trusted(repo: Repository, login: Login, trust: Iterable[str]) -> bool:
    """Whether a person may give commands, by the repository's `trust` list.

    A login on the list also needs some permission in the repository, which deleted and blocked
    accounts do not have. `@write` is a login, `write` a role. Apps have no role: one is trusted
    where the list names it, such as `sorter[bot]`.

    Raises:
        GitHubError.
    """
    known = {entry.casefold() for entry in trust}
    logins = {entry.removeprefix("@") for entry in known - ROLES.keys()}
    if is_app(login):
        return login.casefold() in logins
    permission = await repo.get_permission(login)
    if permission == "none":
        return False
    return login.casefold() in logins or any(
        permission in ROLES[word] for word in known & ROLES.keys()
    )


class CommentFilter:
    """Filters the comments of one issue. Asks GitHub about each author once."""

    def __init__(
        self, repo: Repository, issue: IssueFacts, config: RepoConfig, asked_at: datetime | None
    ) -> None:
        self._repo = repo
        self._reporter = issue.author.casefold()
        self._config = config
        self._asked_at = asked_at
        self._known: dict[str, bool] = {}

    async def apply(
        self, comments: AsyncIterable[CommentFacts]
    ) -> tuple[list[CommentFacts], SkippedComments]:
        """The comments that the model may read, and counts of the others."""
        kept: list[CommentFacts] = []
        strangers = late = 0
        async for comment in comments:
            if self._repo.issues.is_own(comment.author) or await self._is_trusted(comment.author):
                kept.append(comment)
            elif self._is_late(comment):
                late += 1
            elif comment.author.casefold() == self._reporter:
                kept.append(comment)
            else:
                strangers += 1
        return kept, SkippedComments(untrusted=strangers, late=late)

    async def hears(
        self, comment: CommentFacts, since: datetime | None, names: Iterable[str]
    ) -> bool:
        """Whether a trusted person has written `comment` since then, to whom it may concern: it is
        no command to one of `names`."""
        made = comment.created_at
        is_new = made is not None and since is not None and made >= since.replace(microsecond=0)
        if not is_new or self._repo.issues.is_own(comment.author):
            return False
        command = parse_command(comment.body or "", *names)
        is_order = command is not None and not is_talk(command)
        return not is_order and await self._is_trusted(comment.author)

    async def _is_trusted(self, login: Login) -> bool:
        name = login.casefold()
        if name not in self._known:
            self._known[name] = await is_trusted(self._repo, login, self._config.trust)
        return self._known[name]

    def _is_late(self, comment: CommentFacts) -> bool:
        """GitHub's clock has whole seconds; an edit within the same second counts as late."""
        asked = self._asked_at
        if asked is None:
            return False
        edited = comment.created_at is not None and comment.updated_at > comment.created_at
        moments: Iterable[datetime | None] = (comment.created_at, comment.updated_at)
        return any(m > asked or (edited and m == asked) for m in moments if m is not None)


def restore_requested_version(
    issue: IssueFacts, asked: IssueVersion | None
) -> tuple[IssueFacts, bool]:
    """The issue as the requester saw it, and whether it was edited since.

    Only webhooks bring that version. Without it the issue is taken as it is; see `is_edited_since`.
    """
    if asked is None or (asked.title, asked.body) == (issue.title, issue.body or ""):
        return issue, False
    return replace(issue, title=asked.title, body=asked.body), True


async def is_edited_since(repo: Repository, issue: IssueFacts, asked_at: datetime | None) -> bool:
    """Whether title or text of the issue changed after the request, or in the same second.

    Read `issue` before calling this: then an edit in between is noticed.

    Raises:
        GitHubError.
    """
    if asked_at is None:
        return False
    edited = await repo.issues.get_edit_time(issue)
    return edited is not None and edited >= asked_at.replace(microsecond=0)
