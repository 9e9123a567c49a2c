"""The words that an issue and a file have in common, without those that say nothing of the code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from pipeline.types import Issue

_WORD = re.compile(r"[^\W\d]\w{2,79}")
_PART = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}(?![a-z])")
_COMMON = """
    the and for with not that this from are you have has was can when which should would will but
    issue bug error expected actual python version import class def self none true false return
    print code file line traceback most recent call last using use versions
"""
_IGNORED = frozenset(_COMMON.split())
_PACKAGE = re.compile(
    r"[ \t>|*-]{0,8}[A-Za-z][\w.-]{0,80}(?:[ \t]{0,4}[=@<>~]=?=?[ \t]{0,4}|[ \t]{1,60})"
    r"v?\d[\w.+!-]{0,60}(?:[ \t]+[\w./:()-]{1,200}){0,3}"
)
"""A line of `pip list`, `pip freeze` or `conda list`."""
_LIST_LINES = 5
"""So many such lines in a row are a list of what is installed, which says nothing of the code."""
_LOG_LINES = 40
_TITLE = 2
"""The weight of a word in the title."""


def count_words(issue: Issue) -> Counter[str]:
    """The weight of each word of the issue."""
    found = Counter(split_words(_drop_pasted("\n".join((issue.body, *issue.discussion)))))
    for word in split_words(issue.title):
        found[word] += _TITLE
    return Counter({word: n for word, n in found.items() if word not in _IGNORED})


def _drop_pasted(text: str) -> str:
    """`text` without lists of installed packages, and without the middle of long logs."""
    kept: list[str] = []
    run: list[str] = []
    for line in (*text.split("\n"), ""):
        if _PACKAGE.fullmatch(line.rstrip()):
            run.append(line)
            continue
        kept += [*(run if len(run) < _LIST_LINES else ()), line]
        run = []
    return "\n".join(_cut_logs(kept))


def _cut_logs(lines: list[str]) -> Iterator[str]:
    """Of a fenced block of many lines, only the first and the last ones: the error is at an end."""
    block: list[str] | None = None
    for line in lines:
        fence = line.lstrip().startswith(("```", "~~~"))
        if block is None:
            block = [] if fence else None
            yield line
        elif fence:
            yield from _cut_block(block)
            yield line
            block = None
        else:
            block.append(line)
    yield from _cut_block(block or [])


def _cut_block(block: list[str]) -> list[str]:
    return block if len(block) <= 2 * _LOG_LINES else block[:_LOG_LINES] + block[-_LOG_LINES:]


def split_words(text: str) -> Iterator[str]:
    """Identifiers and words in lower case, and the parts of compound ones."""
    for word in _WORD.findall(text):
        yield word.lower()
        parts = _PART.findall(word)
        if len(parts) > 1:
            for part in parts:
                yield part.lower()
