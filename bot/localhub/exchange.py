"""What came in by one of the hub's doors, and what went out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Exchange:
    """One request that the hub answered. `path` has no `/api/v3` and no query."""

    door: Literal["rest", "git", "graphql"]
    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: bytes
    status: int
    answer_headers: dict[str, str]
    answer: bytes
    actor: str | None
    installation: int | None
