"""What turns texts into vectors that lie near each other where meanings do."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol, TypeAlias

Vector: TypeAlias = "array[float]"
"""Of type `f`; not of any particular length."""


class EmbeddingFailed(Exception):
    """The model gave no vectors that can be used; `str(error)` is a clause that says why.

    It names no address, as it is shown in pull requests.
    """


class Embedder(Protocol):
    """One embedding model."""

    @property
    def name(self) -> str:
        """What tells it from all others, its address included: vectors are kept by it."""
        ...

    @property
    def title(self) -> str:
        """Its name alone, for people."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text, all of one length. Of a text too long its beginning counts.

        Raises:
            NotEmbedded: the server is away, or answers nonsense.
            BudgetSpent: see `Meter.check`.
        """
        ...
