"""The form of commits that a repository wants: sign-off, and conventional titles.

https://developercertificate.org, https://www.conventionalcommits.org
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from bot.types import Frozen, Login

if TYPE_CHECKING:
    from bot.github.repository import Identity, Repository
    from pipeline.codebase.commit import Codebase

HABIT_SHARE: Final = 0.5
"""More than this share of the latest commits make a habit."""
MIN_COMMITS: Final = 4
"""Fewer commits than this show no habit."""
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
    """How our commits follow those of the repository."""

    signed_off: bool = False
    conventional: bool = False

    def format_title(self, kind: str, title: str) -> str:
        """`title`, or `kind: title` where titles are conventional; a model's own prefix stays."""
        if not self.conventional or _CONVENTIONAL.match(title):
            return title
        return (
            f"{kind}: {title[:1].lower()}{title[1:]}"
            if _starts_with_plain_word(title)
            else f"{kind}: {title}"
        )

    def format_message(
        self, title: str, body: str, identity: Identity, asked_by: Login, host: str
    ) -> str:
        """A whole commit message with its trailers."""
        trailers = [f"Co-authored-by: {asked_by} <{asked_by}@users.noreply.{host}>"]
        if self.signed_off:
            trailers.append(f"Signed-off-by: {identity.login} <{identity.email}>")
        parts = [title, body, "\n".join(trailers)]
        return "\n\n".join(part for part in parts if part) + "\n"


async def detect_commit_style(repo: Repository, codebase: Codebase | None = None) -> CommitStyle:
    """The style by the repository's files and its latest commits.

    Without a `codebase` it looks for one file only, which it asks GitHub for.

    Raises:
        GitHubError: from reading the repository.
    """
    messages = [
        message for message in await repo.list_recent_messages() if not _MERGE_COMMIT.match(message)
    ]
    demanded = await (_has_dco_file(repo) if codebase is None else _demands_sign_off(codebase))
    return CommitStyle(
        signed_off=demanded or _is_habit(messages, _SIGN_OFF_TRAILER.search),
        conventional=_is_habit(messages, _CONVENTIONAL.match),
    )


async def _has_dco_file(repo: Repository) -> bool:
    return await repo.read_file(*DCO_FILES[0].split("/")) is not None


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
    """Whether the first word is neither a name nor an acronym: it may begin in lower case."""
    word = title.split(" ", 1)[0]
    return word.isalpha() and word[1:].islower()
