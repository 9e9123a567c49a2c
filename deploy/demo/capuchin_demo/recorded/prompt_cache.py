"""Tokens as a prompt cache counts them."""

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.data.types import Usage

CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English and code; a recording has no tokenizer."""

MINIMUM_TOKENS = 1024
"""Shorter prefixes are not cached, as at Anthropic for most models.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

TTL_SECONDS = 300.0
"""Counted from the last use."""


class PromptPart(NamedTuple):
    """A piece of the prompt, at whose end a cached prefix may end."""

    text: str
    """With its role, so that the same text by another role is another prefix."""
    marked: bool


def count_tokens(text: str) -> int:
    """An estimate, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


class _Prefix(NamedTuple):
    digest: str
    tokens: int
    marked: bool


class PromptCache:
    """The marked prefixes by model, with their expiry."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds that never decrease."""
        self._clock = clock
        self._expiry: dict[str, float] = {}

    def count_usage(self, model: str, parts: Sequence[PromptPart]) -> Usage:
        """The input usage of a prompt; its marked prefixes are cached afterwards."""
        prefixes = _prefixes(model, parts)
        marked = [p for p in prefixes if p.marked and p.tokens >= MINIMUM_TOKENS]
        now = self._clock()
        reach = marked[-1].tokens if marked else 0
        hits = [p.tokens for p in prefixes if self._expiry.get(p.digest, now) > now]
        read = max((hit for hit in hits if hit <= reach), default=0)
        for prefix in marked:
            self._expiry[prefix.digest] = now + TTL_SECONDS
        total = prefixes[-1].tokens if prefixes else 0
        return Usage(input=total - reach, cache_read=read, cache_write=reach - read)


def _prefixes(model: str, parts: Sequence[PromptPart]) -> list[_Prefix]:
    """For each part, the text up to its end."""
    digest, total = hashlib.sha256(model.encode()), 0
    prefixes: list[_Prefix] = []
    for part in parts:
        # Each part's digest has a fixed length, so that different splits of a text differ.
        digest.update(hashlib.sha256(part.text.encode()).digest())
        total += count_tokens(part.text)
        prefixes.append(_Prefix(digest.hexdigest(), total, part.marked))
    return prefixes
