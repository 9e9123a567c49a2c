"""What people with write access said of a pull request of ours and nobody has answered."""

from __future__ import annotations

from bot.admission.trust import trusted
from bot.followup.context import Care
from bot.github.models import LineCommentFacts, ReviewFacts
from bot.triggers.command_text import parse
from bot.types import Frozen
from bot.visible_text import shown

WRITERS = ("write",)
"""Whose words are followed, whatever the configuration says of who may start a run."""
LONGEST = 8_000
MOST = 40
"""Followed at a time; the rest come next."""
LOGS = 5


class Said(Frozen):
    """One comment or review."""

    id: str
    by: str
    text: str
    """Without what nobody can see. Untrusted."""
    path: str = ""
    line: int | None = None
    comment: int | None = None
    """For a comment on a line: its id."""
    thread: int | None = None
    """The comment whose thread the answer belongs into; None: the conversation."""

    def told(self) -> str:
        """For the model."""
        where = f" on {self.path}" if self.path else ""
        where += f", line {self.line}" if self.path and self.line else ""
        return f"{self.by}{where}: {self.text[:LONGEST]}"


class Batch(Frozen):
    """What is followed in one go. Saved, so that who goes on after a crash follows the same."""

    head: str
    """Full SHA that it was said of."""
    said: tuple[Said, ...]
    logs: tuple[str, ...] = ()
    strangers: int = 0
    """How many comments of people who may not push were left out."""
    done: bool = False
    """It is pushed and answered."""


class Listener:
    """Asks GitHub about each author once. Raises as `Wire.send` does."""

    def __init__(self, care: Care) -> None:
        self._care = care
        self._known: dict[str, bool] = {}
        self._strangers = 0

    async def batch(self) -> Batch:
        """Everything that is new, oldest kind first; no logs when nobody said anything."""
        care = self._care
        said = [*await self._reviews(), *await self._lines(), *await self._commands()]
        logs = await failing(care) if said else ()
        return Batch(
            head=care.pull.head_sha,
            said=tuple(said[:MOST]),
            logs=logs,
            strangers=self._strangers,
        )

    async def _reviews(self) -> list[Said]:
        found: list[Said] = []
        async for review in self._care.repo.pulls.reviews(self._care.pull.number):
            asks = review.state.upper() == "CHANGES_REQUESTED"
            said = Said(id=f"review-{review.id}", by=review.author, text=shown(review.body or ""))
            if asks and await self._counts(said, review):
                found.append(said)
        return found

    async def _lines(self) -> list[Said]:
        found: list[Said] = []
        async for comment in self._care.repo.pulls.line_comments(self._care.pull.number):
            said = Said(
                id=f"line-{comment.id}",
                by=comment.author,
                text=shown(comment.body or ""),
                path=comment.path,
                line=comment.line,
                comment=comment.id,
                thread=comment.thread,
            )
            if await self._counts(said, comment):
                found.append(said)
        return found

    async def _commands(self) -> list[Said]:
        """In the conversation people talk to each other: only what is said to us counts."""
        found: list[Said] = []
        name = self._care.settings.app_name
        async for comment in self._care.repo.issues.comments(self._care.pull.number):
            text = shown(comment.body or "")
            command = parse(text, name)
            said = Said(id=f"comment-{comment.id}", by=comment.author, text=text)
            if command and command.verb == "fix" and await self._counts(said, None):
                found.append(said)
        return found

    async def _counts(self, said: Said, of: ReviewFacts | LineCommentFacts | None) -> bool:
        care = self._care
        bot = of is not None and of.author_type == "Bot"
        if bot or not said.text or said.id in care.record.answered:
            return False
        if care.repo.issues.is_own(said.by):
            return False
        name = said.by.casefold()
        if name not in self._known:
            self._known[name] = await trusted(care.repo, said.by, WRITERS)
        self._strangers += not self._known[name]
        return self._known[name]


async def failing(care: Care) -> tuple[str, ...]:
    """What failing checks of others and failing statuses say. Raises as `Wire.send` does."""
    logs: list[str] = []
    slug = care.repo.identity.login.removesuffix("[bot]")
    for run in await care.repo.checks.of_others(care.pull.head_sha, slug):
        if run.conclusion not in ("failure", "timed_out") or len(logs) >= LOGS:
            continue
        notes = [
            f"{note.path}:{note.start_line}: {note.message or ''}"
            for note in await care.repo.checks.annotations(run.id)
        ]
        told = [run.name, run.title or "", run.summary or "", run.text or "", *notes]
        logs.append("\n".join(part for part in told if part)[:LONGEST])
    logs += [
        f"{status.context}: {status.description or status.state}"[:LONGEST]
        for status in await care.repo.checks.statuses(care.pull.head_sha)
        if status.state in ("error", "failure")
    ][: LOGS - len(logs)]
    return tuple(logs)
