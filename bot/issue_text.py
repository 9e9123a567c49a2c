"""An issue as text for the pipeline: who said what, without what nobody can see."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bot.github.facts import CommentFacts, IssueFacts
from pipeline.types import Issue

BODY_CHARACTERS = 60_000
COMMENT_CHARACTERS = 10_000
COMMENTS_KEPT = 50
"""The latest comments that are kept."""
_CODE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?(?:^\1[`~]*\s*$|\Z)|`[^`\n]+`", re.S | re.M)
_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)", re.S)


def issue_text(
    repository: str, issue: IssueFacts, comments: Sequence[CommentFacts], own_login: str
) -> Issue:
    """Each comment begins with its author's login; our own and empty ones are left out."""
    said = [
        (comment, text)
        for comment in comments
        if comment.author.lower() != own_login.lower()
        and (text := without_hidden(comment.body or "").strip())
    ]
    return Issue(
        repository=repository,
        title=issue.title,
        body=_cut(without_hidden(issue.body or "").strip(), BODY_CHARACTERS),
        discussion=tuple(
            f"{comment.author}: {_cut(text, COMMENT_CHARACTERS)}"
            for comment, text in said[-COMMENTS_KEPT:]
        ),
    )


def without_hidden(text: str) -> str:
    """Without HTML comments, which a maintainer who reads the issue does not see.

    In code they are shown, and stay.
    """
    parts: list[str] = []
    at = 0
    for code in _CODE.finditer(text):
        parts += [_HIDDEN.sub("", text[at : code.start()]), code.group()]
        at = code.end()
    return "".join([*parts, _HIDDEN.sub("", text[at:])])


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n[… cut …]"
