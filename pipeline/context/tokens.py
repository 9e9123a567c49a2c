"""How many tokens a text has: counted by the model's server, or estimated, rather too high."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]|\s+|[^\x00-\x7f]+|[^\w\s]|_")


class CountUnavailable(Exception):
    """The server could not count; `str(error)` says which one."""


class TokenCounter(Protocol):
    """Counts tokens for one model."""

    @property
    def name(self) -> str:
        """Identifies the counter: counts under one name may be cached."""
        ...

    async def count(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, without those of a chat template around it.

        Raises:
            CountUnavailable: the server does not answer; use an estimate.
        """
        ...


class TokenEstimator:
    """`estimate_tokens` as a counter, for models whose server does not count."""

    @property
    def name(self) -> str:
        return "estimate 2"

    async def count(self, texts: Sequence[str]) -> list[int]:
        return [estimate_tokens(text) for text in texts]


ESTIMATOR: Final = TokenEstimator()


def estimate_tokens(text: str) -> int:
    """An upper estimate for code and prose: a tenth more than its `weight`.

    `python -m tests.benchmarks --only tokens` compares it with real tokenizers.
    """
    return -(-weight(text) * 11 // 10)


def weight_for(tokens: int) -> int:
    """The weight of text that is estimated at this many tokens; the inverse of the estimate."""
    return tokens * 10 // 11


def weight(text: str) -> int:
    """One for five small letters or two capitals, a digit, a sign, a line break with its
    indentation (two, when lines are empty before it); two for three bytes beyond ASCII."""
    return sum(_weight(piece) * n for piece, n in Counter(_PIECE.findall(text)).items())


def _weight(piece: str) -> int:
    if piece.isspace():
        kinds = len(set(piece)) if piece.count("\n") > 1 else 1
        return (kinds if piece != " " else 0) + len(piece) // 16
    if not piece[0].isascii():
        return -(-2 * len(piece.encode("utf-8", "replace")) // 3)
    if not piece.isalpha():
        return 1
    if len(piece) == 2 and piece.istitle():  # random letters contain many of these, words few
        return 2
    return -(-len(piece) // (2 if piece.isupper() else 5))
