"""Counts tokens like a service with a prompt cache: read, stored, or neither."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bot.recorded.requests import PromptPart
from pipeline.types import Usage

CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English and code; a recording has no tokenizer."""

MINIMUM_TOKENS = 1024
"""Shorter prefixes are not cached, as at Anthropic for most models.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

BLOCK_TOKENS = 16
"""vLLM's default."""

TTL_SECONDS = 300.0
"""Counted from the last use."""


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


class BlockCache:
    """vLLM's automatic prefix cache: whole blocks of a prompt, identified with all text before.

    https://docs.vllm.ai/en/latest/design/prefix_caching.html
    """

    def __init__(self) -> None:
        self.queries = 0
        """The tokens of all prompts so far."""
        self.hits = 0
        """How many of them were in cached blocks."""
        self._known: set[bytes] = set()

    def add(self, model: str, parts: Sequence[PromptPart]) -> None:
        """Count a prompt and cache its blocks."""
        text = "".join(part.text for part in parts).encode()
        self.queries += -(-len(text) // CHARACTERS_PER_TOKEN)
        digest = hashlib.sha256(model.encode()).digest()
        step = BLOCK_TOKENS * CHARACTERS_PER_TOKEN
        for start in range(0, len(text) - step + 1, step):
            digest = hashlib.sha256(digest + text[start : start + step]).digest()
            self.hits += BLOCK_TOKENS * (digest in self._known)
            self._known.add(digest)


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
