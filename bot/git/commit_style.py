"""Detects a repository's commit conventions: sign-off and conventional titles.

https://developercertificate.org, https://www.conventionalcommits.org
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from bot.types import Frozen

if TYPE_CHECKING:
    from bot.github.repository import Identity, Repository
    from pipeline.codebase.commit import Codebase

HABIT_SHARE: Final = 0.5
"""More than this share of the latest commits makes a habit."""
MIN_COMMITS: Final = 4
"""Fewer commits than this are not enough to detect a habit."""
DCO_FILES: Final = (".github/dco.yml", "dco", "dco.txt", ".dco")
GUIDES: Final = ("contributing.md", ".github/contributing.md", "docs/contributing.md",
                 "contributing.rst", "contributing.txt", "contributing")  # fmt: skip
_SIGN_OFF_DEMAND = re.compile(
    r"developer certificate of origin|\bDCO\b|signed-off-by|sign(ed)?[ -]off|git commit -s", re.I
)
_SIGN_OFF_TRAILER = re.compile(r"^Signed-off-by: ", re.M)
_CONVENTIONAL = re.compile(
    r"(build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(\([^)\n]{1,40}\))?!?: \S"
)
_MERGE_COMMIT = re.compile(r"Merge (pull request|branch|remote-tracking|tag|commit)\b")


class CommitStyle(Frozen):
    """The conventions that our commits follow."""

    signed_off: bool = False
    conventional: bool = False

    def format_title(self, kind: str, title: str) -> str:
        """`title`, or `kind: title` if that is the convention; a prefix by the model is kept."""
        if not self.conventional or _CONVENTIONAL.match(title):
            return title
        return (
            f"{kind}: {title[:1].lower()}{title[1:]}"
            if _starts_with_plain_word(title)
            else f"{kind}: {title}"
        )

    def format_message(
        self, title: str, body: str, identity: Identity, asked_by: str, host: str
    ) -> str:
        """A whole commit message with its trailers."""
        trailers = [f"Co-authored-by: {asked_by} <{asked_by}@users.noreply.{host}>"]
        if self.signed_off:
            trailers.append(f"Signed-off-by: {identity.login} <{identity.email}>")
        parts = [title, body, "\n".join(trailers)]
        return "\n\n".join(part for part in parts if part) + "\n"


async def detect_commit_style(repo: Repository, codebase: Codebase) -> CommitStyle:
    """Detect the conventions from the repository's files and its latest commit messages.

    Raises:
        GitHubError: GitHub is unavailable or refuses the request.
    """
    messages = [
        message for message in await repo.list_recent_messages() if not _MERGE_COMMIT.match(message)
    ]
    return CommitStyle(
        signed_off=await _demands_sign_off(codebase)
        or _is_habit(messages, _SIGN_OFF_TRAILER.search),
        conventional=_is_habit(messages, _CONVENTIONAL.match),
    )


async def detect_commit_style_from_history(repo: Repository) -> CommitStyle:
    """Like `detect_commit_style`, for callers without a checkout."""
    messages = [
        message for message in await repo.list_recent_messages() if not _MERGE_COMMIT.match(message)
    ]
    demanded = await repo.read_file(*DCO_FILES[0].split("/")) is not None
    return CommitStyle(
        signed_off=demanded or _is_habit(messages, _SIGN_OFF_TRAILER.search),
        conventional=_is_habit(messages, _CONVENTIONAL.match),
    )


async def _demands_sign_off(codebase: Codebase) -> bool:
    by_name = {path.lower(): path for path in codebase.files}
    if any(name in by_name for name in DCO_FILES):
        return True
    for name in GUIDES:
        text = await codebase.read_text(by_name[name]) if name in by_name else None
        if text and _SIGN_OFF_DEMAND.search(text):
            return True
    return False


def _is_habit(messages: Sequence[str], does: Callable[[str], object]) -> bool:
    matches = [bool(does(message)) for message in messages]
    return len(matches) >= MIN_COMMITS and sum(matches) > HABIT_SHARE * len(matches)


def _starts_with_plain_word(title: str) -> bool:
    """Whether the first word is not a name or acronym, so that it may start in lower case."""
    word = title.split(" ", 1)[0]
    return word.isalpha() and word[1:].islower()
