"""Embedding models: texts become vectors that are close when their meanings are."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol, TypeAlias

Vector: TypeAlias = "array[float]"
"""An array of type `f`, of any length."""


class EmbeddingFailed(Exception):
    """The model returned no usable vectors; `str(error)` is a clause that says why.

    It names no address, because pull requests show it.
    """


class Embedder(Protocol):
    """One embedding model."""

    @property
    def name(self) -> str:
        """Identifies the model, including its address: vectors are cached under this name."""
        ...

    @property
    def title(self) -> str:
        """Its name alone, for people."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text, all of one length. Only the beginning of a too long text counts.

        Raises:
            EmbeddingFailed: the server is unreachable or its reply is unusable.
            BudgetSpent: see `Meter.check`.
        """
        ...
