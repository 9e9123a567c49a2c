from __future__ import annotations

import pytest

from pipeline.selection.scoring.ratios import explain_weights, load_shipped_ratios
from pipeline.types import replace


@pytest.mark.parametrize(
    ("fitted", "said"),
    [
        (True, "was counted on 12 of them, with the assumption that half"),
        (False, "is an assumption."),
    ],
)
def test_where_the_weight_of_the_executions_comes_from_is_said(fitted: bool, said: str) -> None:
    ratios = replace(load_shipped_ratios(), fitted=fitted, edits=12)
    assert f"how much running tests tells {said}" in explain_weights(ratios)
