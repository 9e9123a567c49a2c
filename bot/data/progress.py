"""How far a run has come: stages and counts, for people."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, get_args

from pydantic import Field

from bot.data.run import now
from sandbox.frozen import Frozen

Stage = Literal["environment", "context", "edits", "choice", "reproduction"]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)
"""In their order."""
MIN_DURATIONS: Final = 3
"""Runs that must have ended before anything is said of how long they take."""


class Progress(Frozen):
    """What the status comment and the run's page show while a run is worked on."""

    doing: str = ""
    """A sentence. May quote the repository: untrusted."""
    environment: str = ""
    """How well the environment of the run works. May quote the repository: untrusted."""
    stages: dict[Stage, datetime] = Field(default_factory=dict[Stage, datetime])
    """When each stage began; the latest is under way."""
    expected: tuple[float, float] | None = None
    """How many seconds the middle half of the latest runs took; None: too few have ended."""
    files: int = 0
    """Read one by one for whether they matter."""
    tests: int = 0
    """Reproduction scripts that are written."""
    edits: int = 0
    """That are written."""
    edits_begun: int = 0
    """Written, or under way."""
    suite_tests: int = 0
    """The repository's own tests that ran on the unedited code."""
    suite_run: int = 0
    """Tests of the repository that ran after that, with an edit or again; one counts each time."""
    suite_runs: int = 0
    """In how many runs."""
    dollars: float = 0.0
    """Spent so far at list prices."""
    at: datetime = Field(default_factory=now)


def range_of_durations(durations: Sequence[float]) -> tuple[float, float] | None:
    """The quartiles of what runs took; None where too few have ended."""
    if len(durations) < MIN_DURATIONS:
        return None
    low, _, high = statistics.quantiles(durations, n=4, method="inclusive")
    return low, high
