"""How a repository wants its commits: signed off, and with titles of a certain form.

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

MOST: Final = 0.5
"""A habit is what more than this share of the latest commits do."""
FEWEST: Final = 4
"""From fewer commits than this no habit is told."""
DCO_FILES: Final = (".github/dco.yml", "dco", "dco.txt", ".dco")
GUIDES: Final = ("contributing.md", ".github/contributing.md", "docs/contributing.md",
                 "contributing.rst", "contributing.txt", "contributing")  # fmt: skip
_DEMANDS = re.compile(
    r"developer certificate of origin|\bDCO\b|signed-off-by|sign(ed)?[ -]off|git commit -s", re.I
)
_SIGNED = re.compile(r"^Signed-off-by: ", re.M)
_CONVENTIONAL = re.compile(
    r"(build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(\([^)\n]{1,40}\))?!?: \S"
)
_MERGE = re.compile(r"Merge (pull request|branch|remote-tracking|tag|commit)\b")


class Manners(Frozen):
    """What our commits do because others here do it."""

    signed_off: bool = False
    conventional: bool = False

    def titled(self, kind: str, title: str) -> str:
        """`title`, or `kind: title` where that is the custom; a model's own prefix is kept."""
        if not self.conventional or _CONVENTIONAL.match(title):
            return title
        return f"{kind}: {title[:1].lower()}{title[1:]}" if _is_plain(title) else f"{kind}: {title}"

    def message(self, title: str, body: str, identity: Identity, asked_by: str, host: str) -> str:
        """A whole commit message with its trailers."""
        trailers = [f"Co-authored-by: {asked_by} <{asked_by}@users.noreply.{host}>"]
        if self.signed_off:
            trailers.append(f"Signed-off-by: {identity.login} <{identity.email}>")
        parts = [title, body, "\n".join(trailers)]
        return "\n\n".join(part for part in parts if part) + "\n"


async def manners_of(repo: Repository, codebase: Codebase) -> Manners:
    """By the repository's files and the messages of its latest commits. Raises as `Wire.send`."""
    messages = [message for message in await repo.recent_messages() if not _MERGE.match(message)]
    return Manners(
        signed_off=await _demands(codebase) or _mostly(messages, _SIGNED.search),
        conventional=_mostly(messages, _CONVENTIONAL.match),
    )


async def habits_of(repo: Repository) -> Manners:
    """As `manners_of`, without a checkout at hand."""
    messages = [message for message in await repo.recent_messages() if not _MERGE.match(message)]
    demanded = await repo.file_text(*DCO_FILES[0].split("/")) is not None
    return Manners(
        signed_off=demanded or _mostly(messages, _SIGNED.search),
        conventional=_mostly(messages, _CONVENTIONAL.match),
    )


async def _demands(codebase: Codebase) -> bool:
    by_name = {path.lower(): path for path in codebase.files}
    if any(name in by_name for name in DCO_FILES):
        return True
    for name in GUIDES:
        text = await codebase.text(by_name[name]) if name in by_name else None
        if text and _DEMANDS.search(text):
            return True
    return False


def _mostly(messages: Sequence[str], does: Callable[[str], object]) -> bool:
    matches = [bool(does(message)) for message in messages]
    return len(matches) >= FEWEST and sum(matches) > MOST * len(matches)


def _is_plain(title: str) -> bool:
    """Whether the first word is no name or acronym, so that it may be written small."""
    word = title.split(" ", 1)[0]
    return word.isalpha() and word[1:].islower()
