"""What model calls used and cost."""

from __future__ import annotations

from sandbox.frozen import Frozen


class Usage(Frozen):
    """Tokens of one or more calls. `input` excludes what the cache served or stored."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )


class Account(Frozen):
    """What one stage spent at one model."""

    stage: str
    model: str
    calls: int
    usage: Usage
    dollars: float
    price_note: str = ""
    """If no price list has the model: one sentence on how `dollars` was priced; else empty."""
