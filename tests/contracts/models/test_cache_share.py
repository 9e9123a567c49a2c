"""A run of 10 samples with 8 replies a machine: what the prompt cache serves, and the price."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pipeline.data.types import Selection
from pipeline.lab.solving import render_table
from tests.benchmarks.pipeline.paper_run import replay


async def test_of_what_a_cache_could_serve_at_least_98_percent_is_read_from_it(
    tmp_path: Path,
) -> None:
    run = await replay(tmp_path)
    assert isinstance(run.result, Selection)
    stages = Counter(asked.call.partition("/")[0] for asked in run.requests)
    assert (stages["editing"], stages["testing"], stages["selecting"]) == (80, 80, 8)
    assert run.cached / run.cacheable >= 0.98, render_table(run.lines)
    assert [line.stage for line in run.lines] == [
        "Relevance",
        "Ranking",
        "Gen. tests",
        "Gen. edits",
        "Selection",
        "Reproduction",
        "Total",
    ]
    assert run.lines[-1].dollars == pytest.approx(run.dollars)
