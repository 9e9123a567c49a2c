"""How a run ended, as it is saved."""

from __future__ import annotations

from pipeline.types import Frozen, NoFix, Selection

OUTCOME_KEY = "outcome"


class SolveResult(Frozen):
    """What `solve` saves at its end, unless the same run could end better when started again."""

    result: Selection | NoFix
