"""The scout reads every file and says which matter (CodeMonkeys, section 2.1)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Literal

from pipeline.bounded import bounded
from pipeline.models.base import ContextTooLong, Message, Model, ModelRefused
from pipeline.store import Store
from pipeline.types import Frozen, Issue, SourceFile
from prompts import render

_SIDE_BY_SIDE = 8
"""Questions in flight at once."""
_TRIES = 2
_REPLY_TOKENS = 500

_ANSWER = re.compile(
    r"\brelevance\b[\s*_`\"':>=-]*(?P<no>not[\s_-]*relevant|irrelevant|no\b)?"
    r"(?P<yes>(?:highly |very |somewhat )?relevant|yes\b)?",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"\bsummary\b[\s*_`\"'>]*[:=-]+[\s*_`]*(?P<text>.*)", re.IGNORECASE | re.DOTALL
)


class Verdict(Frozen):
    """What the scout said about one file."""

    path: str
    answer: Literal["relevant", "not relevant", "unknown", "too long"]
    summary: str = ""


async def judge(
    files: Sequence[SourceFile], issue: Issue, *, scout: Model, store: Store
) -> list[Verdict]:
    """A verdict on each file, in order; each is saved under `context/relevance/<digest>`.

    The first question goes ahead alone, so that a cache of what all share is written once.
    Raises what the model raises.
    """
    first = [await _judge(file, issue, scout, store) for file in files[:1]]
    rest = (_judge(file, issue, scout, store) for file in files[1:])
    return first + await bounded(_SIDE_BY_SIDE, rest)


def parse(path: str, reply: str) -> Verdict:
    """The verdict in a reply, however it is dressed; `unknown` when there is none."""
    found = next((m for m in _ANSWER.finditer(reply) if m["no"] or m["yes"]), None)
    if found is None:
        return Verdict(path=path, answer="unknown")
    summary = _SUMMARY.search(reply, found.end())
    words = summary["text"] if summary else reply[found.end() :]
    return Verdict(
        path=path,
        answer="not relevant" if found["no"] else "relevant",
        summary=" ".join(words.replace("**", "").split()).strip(" .*_`:"),
    )


async def _judge(file: SourceFile, issue: Issue, scout: Model, store: Store) -> Verdict:
    parts = (issue.model_dump_json(), file.path, file.text)
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    key = f"context/relevance/{digest}"
    verdict = await store.load(key, Verdict)
    if verdict is None:
        verdict = await _ask(file, issue, scout)
        await store.save(key, verdict)
    return verdict


async def _ask(file: SourceFile, issue: Issue, scout: Model) -> Verdict:
    messages = [
        Message(role="user", text=render("shared/issue", issue=issue)),
        Message(role="user", text=render("relevance/file", files=[file])),
    ]
    verdict = Verdict(path=file.path, answer="unknown")
    for _ in range(_TRIES):
        try:
            reply = await scout.complete(
                render("relevance/system"),
                messages,
                call="relevance",
                temperature=0,
                max_tokens=_REPLY_TOKENS,
            )
        except ContextTooLong:
            return Verdict(path=file.path, answer="too long")
        except ModelRefused:
            return verdict
        verdict = parse(file.path, reply.text)
        if verdict.answer != "unknown":
            break
    return verdict
