"""The scout reads one file, and its verdict in whatever form it comes."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, cast

from pipeline.context.files.chunks import Piece, split_file
from pipeline.context.outline import MOST_WITHIN
from pipeline.context.tokens import estimate_tokens
from pipeline.data.code_places import SourceFile
from pipeline.data.types import Issue
from pipeline.models.base import (
    ContextTooLong,
    Message,
    Model,
    ModelProfile,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    Reply,
    ReplyFormat,
)
from prompts.templates import render
from prompts.text import shorten
from sandbox.frozen import Frozen, replace

_YES = r"(?:highly |very |somewhat |partly |partially |likely |directly )*(?:relevant|yes|true)\b"
_NO = r"(?:not[\s_-]*(?:\w+ )?relevant|irrelevant|non-?relevant|not\b|no\b|false\b|none\b)"
_LABELLED = re.compile(
    rf"\b(?:relevance|relevant|verdict|answer)\b[\s*_`\"':>=-]*(?:(?P<no>{_NO})|(?P<yes>{_YES}))",
    re.IGNORECASE,
)
_PROSE = re.compile(
    r"(?P<no>\b(?:not|isn't|never|n't)\s+(?:\w+\s+){0,2}relevant\b|\birrelevant\b)"
    r"|(?P<yes>\b(?:is|are|seems|looks|be)\s+(?:\w+\s+){0,2}relevant\b)",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"\A[\s*_`\"'>#.-]*(?:(?P<no>not[\s_-]+relevant|irrelevant|no|false)"
    r"|(?P<yes>relevant|yes|true))\b",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"\bsummary\b[\s*_`\"'>]*[:=-]+[\s*_`\"]*(?P<text>.*)", re.IGNORECASE | re.DOTALL
)
_LONGEST = 2000
"""Characters of a summary; the ranking shows less."""


class ScoutAnswer(NamedTuple):
    relevant: bool
    summary: str


def parse_verdict(reply: str) -> ScoutAnswer | None:
    """The verdict in a reply: JSON (whole, fenced or cut off), labelled lines, or prose.

    None if the reply does not say yes or no.
    """
    document = _parse_document(reply)
    if document is not None:
        return document
    for pattern in (_LABELLED, _FIRST, _PROSE):
        found = pattern.search(reply)
        if found:
            summary = _SUMMARY.search(reply, found.end())
            return ScoutAnswer(
                not found["no"], _clean(summary["text"] if summary else reply[found.end() :])
            )
    return None


def _parse_document(reply: str) -> ScoutAnswer | None:
    decoder = json.JSONDecoder()
    # If none of these begins the document, none will.
    for brace in islice(re.finditer(r"\{", reply), 100):
        try:
            value: object = decoder.raw_decode(reply, brace.start())[0]
        except (json.JSONDecodeError, RecursionError):
            continue
        if isinstance(value, dict):
            answer = _to_answer(cast("dict[str, Any]", value))
            if answer is not None:
                return answer
    return None


def _to_answer(document: Mapping[str, Any]) -> ScoutAnswer | None:
    keys = {key.lower(): value for key, value in document.items()}
    verdict = next(
        (keys[k] for k in ("relevant", "relevance", "verdict", "answer") if k in keys), None
    )
    if isinstance(verdict, str):
        found = _FIRST.search(verdict)
        verdict = None if found is None else not found["no"]
    if not isinstance(verdict, bool):
        return None
    summary = keys.get("summary", "")
    return ScoutAnswer(verdict, _clean(summary) if isinstance(summary, str) else "")


def _clean(text: str) -> str:
    return " ".join(text.replace("**", "").split()).strip(" .,;*_`:\"'{}-")[:_LONGEST]


PROMPT: Final = 5
"""Change it whenever the request for the same file changes: verdicts are cached under it."""
SCHEMA: Final = {
    "type": "object",
    "properties": {
        # First, as servers write the fields in this order: the model reasons before it decides.
        "thoughts": {"type": "string"},
        "relevant": {"type": "boolean"},
        "summary": {"type": "string"},
    },
    "required": ["thoughts", "relevant", "summary"],
    "additionalProperties": False,
}
_STRICT_FORM, _FREE_FORM = ReplyFormat(json_schema=SCHEMA), None
_TRIES: Final = ((_STRICT_FORM, 0.0), (_FREE_FORM, 0.4))
"""The retry sends no reply format, which weak models fill with blanks, and is read leniently."""
_REPLY_SHARE, _MOST_REPLY_TOKENS = 8, 4096
"""A reply may take an eighth of the window, thoughts included; the paper's code allows 4,096."""
_LEAST: Final = 200
"""Tokens; the smallest piece to which a file is cut for the scout."""
_ISSUE_SHARE: Final = 3
"""The divisor of the window that gives the issue's share."""


class RelevanceVerdict(Frozen):
    path: str
    answer: Literal["relevant", "not relevant", "unknown"]
    summary: str = ""
    lines: tuple[tuple[int, int], ...] = ()
    """First and last lines, from 1, of the relevant pieces of a file that was read in pieces."""


class RelevanceReader:
    """Asks one scout about one issue. Requests share a prefix: system prompt, then issue."""

    def __init__(self, scout: Model, issue: Issue) -> None:
        self._scout = scout
        self._system = render("relevance/system")
        window = scout.profile.window
        self._reply_tokens = reply_tokens(scout.profile)
        self._issue = render("shared/issue", issue=clip_issue(issue, window // _ISSUE_SHARE))
        taken = (
            estimate_tokens(self._system)
            + estimate_tokens(self._issue)
            + self._reply_tokens
            + _LEAST
            + MOST_WITHIN // 3  # for the headers of the definitions around a piece
        )
        self.room: Final = max(_LEAST, window - taken)
        """How many tokens of a file fit into one request."""

    async def read(self, piece: Piece) -> RelevanceVerdict:
        """The verdict on a piece; an unusable reply counts as `unknown`.

        Raises:
            ModelError: the call failed, except for ModelRefused and ContextTooLong.
        """
        try:
            return await self._judge(piece)
        except ModelRefused:
            return unknown_verdict(piece)
        except ContextTooLong:
            return await self._read_halves(piece)

    async def is_available(self) -> bool:
        """Whether the scout answers a trivial request."""
        nothing = Piece(path="empty", text="", tokens=0, first=1, last=1, number=1, of=1)
        try:
            await self._ask(nothing, tokens=1, call="relevance/probe")
        except ModelUnavailable:
            return False
        except (ContextTooLong, ModelRefused):
            return True
        return True

    async def _judge(self, piece: Piece) -> RelevanceVerdict:
        for form, temperature in _TRIES:
            reply = await self._ask(piece, form, temperature, tokens=self._reply_tokens)
            said = parse_verdict(reply.text)
            if said is not None:
                pieces = ((piece.first, piece.last),) if said.relevant and piece.of > 1 else ()
                answer = "relevant" if said.relevant else "not relevant"
                return RelevanceVerdict(
                    path=piece.path, answer=answer, summary=said.summary, lines=pieces
                )
        return unknown_verdict(piece)

    async def _ask(
        self,
        piece: Piece,
        form: ReplyFormat | None = None,
        temperature: float = 0,
        *,
        tokens: int,
        call: str = "relevance",
    ) -> Reply:
        asked = Message(role="user", text=render("relevance/file", piece=piece))
        return await self._scout.complete(
            ModelRequest(
                self._system,
                (Message(role="user", text=self._issue), asked),
                call=call,
                temperature=temperature,
                max_tokens=tokens,
                form=form,
            )
        )

    async def _read_halves(self, piece: Piece) -> RelevanceVerdict:
        """Read both halves of a piece whose tokens were underestimated."""
        half = piece.tokens // 2
        if half < _LEAST:
            return unknown_verdict(piece)
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


def reply_tokens(profile: ModelProfile) -> int:
    """How long the scout's reply on one file may be, in tokens."""
    wanted = max(500, profile.window // _REPLY_SHARE)
    return min(wanted, _MOST_REPLY_TOKENS, profile.max_output)


def unknown_verdict(piece: Piece) -> RelevanceVerdict:
    """The verdict on a piece of which the scout gives no readable one."""
    where = "it" if piece.of == 1 else f"lines {piece.first} to {piece.last}"
    note = f"The scout could not say what is in {where}."
    return RelevanceVerdict(path=piece.path, answer="unknown", summary=note)


def merge_verdicts(verdicts: Sequence[RelevanceVerdict]) -> RelevanceVerdict:
    """One verdict from those on all pieces of a file, in order: relevant if any piece is.

    Otherwise unknown if any piece is unknown.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    for answer in ("relevant", "unknown"):
        some = [v for v in verdicts if v.answer == answer]
        if some:
            break
    else:
        answer, some = "not relevant", list(verdicts[:1])
    return RelevanceVerdict(
        path=verdicts[0].path,
        answer=answer,
        summary=" ".join(dict.fromkeys(v.summary for v in some if v.summary)),
        lines=tuple(lines for v in some for lines in v.lines),
    )


def clip_issue(issue: Issue, tokens: int) -> Issue:
    """`issue` with the middle of a long body or discussion cut out, to about `tokens` tokens."""
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
