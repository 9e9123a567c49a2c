"""Brackets: whether they hold a call, or only wrap a line of Python."""

from __future__ import annotations

import re

WORD = r"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*"
"""A name, in text with one character per byte of UTF-8."""
OPENERS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = frozenset(OPENERS.values())

_NAME = re.compile(WORD)
_KEYWORDS = frozenset(
    (
        *("return", "in", "and", "or", "not", "if", "elif", "while", "is", "yield", "assert"),
        *("else", "for", "print", "del", "raise", "lambda", "await", "case", "match", "from"),
        "import",
    )
)
_WRAPPING = ("return", "if", "elif", "while", "assert", "=", "+=", "-=")


def is_value(token: str) -> bool:
    """Whether a bracket directly after this token calls or indexes it."""
    return token in (")", "]", "}") or bool(_NAME.fullmatch(token) and token not in _KEYWORDS)


def strip_parentheses(tokens: list[str], lines: list[int]) -> tuple[list[str], list[int]]:
    """Remove the parentheses around the whole expression that a statement returns, tests or
    assigns."""
    last = len(tokens) - (tokens[-1] == ":")
    if tokens[last - 1] != ")" or "(" not in tokens:
        return tokens, lines
    start = tokens.index("(")
    before = tokens[start - 1]
    if before not in _WRAPPING:
        return tokens, lines
    if before in ("if", "=") and _depth_before(tokens, start):
        return tokens, lines
    if not _encloses_expression(tokens, start, last - 1):
        return tokens, lines
    keep = [i for i in range(len(tokens)) if i not in (start, last - 1)]
    return [tokens[i] for i in keep], [lines[i] for i in keep]


def _depth_before(tokens: list[str], end: int) -> int:
    return sum((t in OPENERS) - (t in CLOSERS) for t in tokens[:end])


def _encloses_expression(tokens: list[str], start: int, end: int) -> bool:
    """Whether the bracket at `start` closes at `end` and holds one plain expression."""
    depth = 0
    for i in range(start, end + 1):
        depth += (tokens[i] in OPENERS) - (tokens[i] in CLOSERS)
        if depth == 0 and i < end:
            return False
        if depth == 1 and tokens[i] in (",", "for", ":=", "yield"):
            return False
    return depth == 0 and end > start + 1
