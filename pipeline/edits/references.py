"""Numbers of issues that an edit mentions, and nobody gave."""

from __future__ import annotations

import re

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import parse_diff
from pipeline.data.types import Issue

_NUMBER = re.compile(r"(?<![\w&#/])#(\d{1,7})\b")
_MENTION = re.compile(r"\(?(?<![\w&/])#(\d{1,7})\b\)?")
_LONGEST = 1000
"""Characters read of a line."""


async def find_made_up_numbers(diff: str, issue: Issue, codebase: Codebase) -> tuple[str, ...]:
    """Numbers, such as `#7215`, in lines that `diff` adds, where neither the issue nor the files
    as they are now hold them. Models add them from memory or out of thin air."""
    told = _numbers_of(issue)
    found: dict[str, None] = {}
    for file in parse_diff(diff):
        added = (line[:_LONGEST] for hunk in file.hunks for sign, line in hunk.lines if sign == "+")
        numbers = {number for line in added for number in _NUMBER.findall(line)}
        text = await codebase.read_text(file.old) if numbers and file.old else ""
        known = {*told, *re.findall(r"\d+", text or "")}
        found |= dict.fromkeys(f"#{number}" for number in sorted(numbers - known))
    return tuple(found)


def drop_made_up_numbers(sentence: str, issue: Issue) -> str:
    """`sentence` without numbers, such as `(#7215)`, that the issue does not hold."""
    told = _numbers_of(issue)
    kept = _MENTION.sub(lambda found: found[0] if found[1] in told else "", sentence)
    return " ".join(kept.split())


def _numbers_of(issue: Issue) -> set[str]:
    text = " ".join((issue.title, issue.body, *issue.discussion, f"#{issue.number}"))
    return set(re.findall(r"\d+", text))
