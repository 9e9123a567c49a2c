"""How often right and wrong edits pass a test of the issue, and break the repository's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from pipeline.selection.scoring.confidence import CalibrationBin
from pipeline.types import Frozen


class Rate(Frozen):
    """How often right and wrong edits do something, above 0 and below 1."""

    if_right: float
    if_wrong: float

    def odds(self, does: bool) -> float:
        """The log-odds of being right that doing it adds, or not doing it."""
        if does:
            return math.log(self.if_right / self.if_wrong)
        return math.log((1 - self.if_right) / (1 - self.if_wrong))


class Ratios(Frozen):
    """The likelihood ratios of executions."""

    passes: Rate
    """Passing a script that was written for the issue."""
    breaks: Rate
    """Breaking at least one of the repository's own tests."""
    correlation: float
    """Between scripts for one issue."""

    def script_odds(self, shares: Sequence[tuple[float, bool]]) -> float:
        """What scripts add, each with its weight and whether the edit passes it: n of them count
        as `n / (1 + (n - 1) * correlation)`."""
        total = sum(share for share, _ in shares)
        if total <= 0:
            return 0.0
        count = len(shares) / (1 + (len(shares) - 1) * self.correlation)
        return count * sum(share * self.passes.odds(does) for share, does in shares) / total


ASSUMED = Ratios(
    passes=Rate(if_right=0.75, if_wrong=0.45),
    breaks=Rate(if_right=0.05, if_wrong=0.30),
    correlation=0.6,
)
"""Before any execution: what the fit starts from."""


class FittedRatios(Frozen):
    """The file of ratios, and what stands behind it."""

    date: str
    data: str
    method: str
    command: str
    fitted: bool
    """False: too few were counted, and `ratios` are the assumed ones."""
    ratios: Ratios
    seen: Ratios
    """As they were counted, without what was assumed; for scripts: halves of reference tests."""
    instances: int
    edits: int
    repositories: int
    errors: dict[str, float]
    """Calibration errors over edits in repositories that the ratios had not seen."""
    curve: tuple[CalibrationBin, ...]
    """The same of the fitted ratios, by stated probability."""


@cache
def load_shipped_ratios() -> FittedRatios:
    """Load the ratios that come with the package."""
    text = (files("pipeline.selection.scoring") / "ratios.json").read_text(encoding="utf-8")
    return FittedRatios.model_validate_json(text)
