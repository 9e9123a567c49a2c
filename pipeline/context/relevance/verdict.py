"""Parses a scout's reply, whatever form it takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple, cast

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
_MOST_BRACES = 100
"""Of a reply; where none of them begins the document, none will."""


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


def yes_probability(first: Iterable[tuple[str, float]]) -> float | None:
    """The probability of yes against no, from the candidates for the first token.

    Tokenizers may split a word, so its beginning counts. None if neither is likely: a model that
    would rather say something else has not answered.
    """
    sums = {"yes": 0.0, "no": 0.0}
    for token, chance in first:
        word = token.strip(" \n\"'`*▁Ġ").lower()
        for name in sums:
            if word and (name.startswith(word) or word.startswith(name)):
                sums[name] += chance
    total = sum(sums.values())
    return sums["yes"] / total if total > 0.1 else None


def _parse_document(reply: str) -> ScoutAnswer | None:
    decoder = json.JSONDecoder()
    for brace in islice(re.finditer(r"\{", reply), _MOST_BRACES):
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
