"""The issue as the model reads it."""

from __future__ import annotations

from collections.abc import Sequence

from bot.github.models import CommentFacts, IssueFacts
from bot.visible_text import shown, without_unseen
from pipeline.types import Issue

BODY_CHARACTERS = 60_000
COMMENT_CHARACTERS = 10_000
COMMENTS_KEPT = 50
"""The latest comments that are kept."""
DISCUSSION_CHARACTERS = 60_000
"""Of all comments together; the latest are kept."""


def issue_text(
    repository: str, issue: IssueFacts, comments: Sequence[CommentFacts], own_login: str
) -> Issue:
    """Each comment begins with its author's login; our own and empty ones are left out."""
    seen = [
        (comment, text)
        for comment in comments
        if comment.author.lower() != own_login.lower() and (text := shown(comment.body or ""))
    ]
    said = [
        f"{comment.author}: {_cut(text, COMMENT_CHARACTERS)}"
        for comment, text in seen[-COMMENTS_KEPT:]
    ]
    while sum(map(len, said)) > DISCUSSION_CHARACTERS:
        said.pop(0)
    return Issue(
        repository=repository,
        title=without_unseen(issue.title),
        body=_cut(shown(issue.body or ""), BODY_CHARACTERS),
        discussion=tuple(said),
    )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n[… cut …]"
