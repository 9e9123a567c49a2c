"""The scout reads one file, or a piece of one, and says whether it matters (CodeMonkeys, 2.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final, Literal

from pipeline.context.files.chunks import Piece, split_file
from pipeline.context.outline import MOST_WITHIN
from pipeline.context.relevance.verdict import parse_verdict, yes_probability
from pipeline.context.tokens import estimate_tokens
from pipeline.models.base import (
    ContextTooLong,
    Message,
    Model,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    ReplyFormat,
)
from pipeline.types import Frozen, Issue, SourceFile, replace
from prompts import render, shorten

PROMPT: Final = 4
"""Changed whenever the same file would be asked about otherwise: verdicts are kept by it."""
SCHEMA: Final = {
    "type": "object",
    "properties": {"relevant": {"type": "boolean"}, "summary": {"type": "string"}},
    "required": ["relevant", "summary"],
    "additionalProperties": False,
}
_STRICT_FORM, _FREE_FORM = ReplyFormat(json_schema=SCHEMA), None
_TRIES: Final = ((_STRICT_FORM, 0.0), (_FREE_FORM, 0.4))
"""The second time without the form, which a weak model may fill with blanks, and less strictly."""
_REPLY_TOKENS: Final = 500
_LEAST: Final = 200
"""Tokens; a piece that is too long for the scout is not cut smaller."""
_WITHIN_TOKENS: Final = MOST_WITHIN // 3
"""Kept free for the heads of what a piece lies in."""
_ALTERNATIVES: Final = 20
_ISSUE_SHARE: Final = 3
"""An issue may take one in so many parts of the window."""


class RelevanceVerdict(Frozen):
    """What the scout said about one file."""

    path: str
    answer: Literal["relevant", "not relevant", "unknown"]
    summary: str = ""
    lines: tuple[tuple[int, int], ...] = ()
    """Of a file that was read in pieces: the first and last lines of the relevant ones, from 1."""
    probability: float | None = None
    """Of being relevant, where it was asked for by one word."""


class RelevanceReader:
    """Asks one scout about one issue. All questions begin alike: system text, issue, then file."""

    def __init__(self, scout: Model, issue: Issue, *, threshold: float = 0) -> None:
        """With a `threshold` above 0 one word is asked for first, and a summary only of files
        that are relevant with at least that probability."""
        self._scout = scout
        self._threshold = threshold
        self._system = render("relevance/system")
        window = scout.profile.window
        self._issue = render("shared/issue", issue=clip_issue(issue, window // _ISSUE_SHARE))
        taken = (
            estimate_tokens(self._system)
            + estimate_tokens(self._issue)
            + _REPLY_TOKENS
            + _LEAST
            + _WITHIN_TOKENS
        )
        self.room: Final = max(_LEAST, window - taken)
        """How many tokens of a file fit into one question."""

    async def read(self, piece: Piece) -> RelevanceVerdict:
        """The verdict on a piece; what a model does not answer properly is `unknown`.

        Raises what the model raises, but ModelRefused and ContextTooLong.
        """
        try:
            return await self._judge(piece)
        except ModelRefused:
            return RelevanceVerdict(
                path=piece.path, answer="unknown", summary=unreadable_note(piece)
            )
        except ContextTooLong:
            return await self._read_halves(piece)

    async def is_available(self) -> bool:
        """Whether the scout answers a question about nothing: else it is away."""
        nothing = Piece(path="empty", text="", tokens=0, first=1, last=1, number=1, of=1)
        try:
            await self._scout.complete(
                ModelRequest(
                    self._system,
                    self._messages(nothing, word=True),
                    call="relevance/word",
                    max_tokens=1,
                )
            )
        except ModelUnavailable:
            return False
        except (ContextTooLong, ModelRefused):
            return True
        return True

    async def _judge(self, piece: Piece) -> RelevanceVerdict:
        chance = await self._ask_probability(piece) if self._threshold else None
        if chance is not None and chance < self._threshold:
            return RelevanceVerdict(path=piece.path, answer="not relevant", probability=chance)
        for form, temperature in _TRIES:
            reply = await self._scout.complete(
                ModelRequest(
                    self._system,
                    self._messages(piece, word=False),
                    call="relevance",
                    temperature=temperature,
                    max_tokens=_REPLY_TOKENS,
                    form=form,
                )
            )
            said = parse_verdict(reply.text)
            if said is not None:
                return self._verdict(
                    piece, said.relevant or chance is not None, said.summary, chance
                )
        if chance is not None:  # the word alone is a verdict too
            return self._verdict(piece, True, "", chance)
        return RelevanceVerdict(path=piece.path, answer="unknown", summary=unreadable_note(piece))

    async def _ask_probability(self, piece: Piece) -> float | None:
        """By the probabilities of the first token; None where the server tells none of use."""
        reply = await self._scout.complete(
            ModelRequest(
                self._system,
                self._messages(piece, word=True),
                call="relevance/word",
                temperature=0,
                max_tokens=1,
                form=ReplyFormat(alternatives=_ALTERNATIVES),
            )
        )
        return yes_probability(reply.first)

    async def _read_halves(self, piece: Piece) -> RelevanceVerdict:
        """Tokens were estimated too low: the piece is read in smaller ones."""
        half = piece.tokens // 2
        if half < _LEAST:
            return RelevanceVerdict(
                path=piece.path, answer="unknown", summary=unreadable_note(piece)
            )
        whole = SourceFile(path=piece.path, text=piece.text, tokens=piece.tokens)
        smaller = [
            dataclasses.replace(
                part,
                first=piece.first + part.first - 1,
                last=piece.first + part.last - 1,
                within=f"{piece.within}{part.within}"[-MOST_WITHIN:],
            )
            for part in split_file(whole, half)
        ]
        return merge_verdicts([await self.read(part) for part in smaller])

    def _messages(self, piece: Piece, *, word: bool) -> tuple[Message, ...]:
        asked = render("relevance/file", piece=piece, word=word)
        return (Message(role="user", text=self._issue), Message(role="user", text=asked))

    def _verdict(
        self, piece: Piece, relevant: bool, summary: str, chance: float | None
    ) -> RelevanceVerdict:
        return RelevanceVerdict(
            path=piece.path,
            answer="relevant" if relevant else "not relevant",
            summary=summary,
            lines=((piece.first, piece.last),) if relevant and piece.of > 1 else (),
            probability=chance,
        )


def unreadable_note(piece: Piece) -> str:
    """What is said of a piece without a readable verdict."""
    where = "" if piece.of == 1 else f" in lines {piece.first} to {piece.last}"
    return f"The scout could not say what is{where or ' in it'}."


def merge_verdicts(verdicts: Sequence[RelevanceVerdict]) -> RelevanceVerdict:
    """One verdict from those on all pieces of a file, in order: relevant when one of them is.

    Where none is, but one is unknown, the whole is unknown.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    for answer in ("relevant", "unknown"):
        some = [v for v in verdicts if v.answer == answer]
        if some:
            break
    else:
        answer, some = "not relevant", list(verdicts[:1])
    chances = [v.probability for v in verdicts if v.probability is not None]
    return RelevanceVerdict(
        path=verdicts[0].path,
        answer=answer,
        summary=" ".join(dict.fromkeys(v.summary for v in some if v.summary)),
        lines=tuple(lines for v in some for lines in v.lines),
        probability=max(chances, default=None),
    )


def clip_issue(issue: Issue, tokens: int) -> Issue:
    """`issue` without the middle of a long body or discussion.

    At most about `tokens` long, so that files have room beside it.
    """
    letters = tokens * 2
    if sum(map(len, (issue.title, issue.body, *issue.discussion))) <= letters:
        return issue
    said = "\n\n".join(issue.discussion)
    return replace(
        issue,
        title=shorten(issue.title, 300),
        body=shorten(issue.body, letters // 2),
        discussion=(shorten(said, letters // 4),) if said else (),
    )
