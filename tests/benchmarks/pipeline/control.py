"""The paper's method against the default, on one scripted issue: what each asks and delivers.

The model is scripted and the executions are told, so the figures are about calls, money and what is
proposed, not about how good the edits are: `capuchin evaluate --solve --set strategy=codemonkeys`
measures that with a real model.
"""

import tempfile
from pathlib import Path

from pipeline.data.options import Options
from pipeline.data.types import Selection
from sandbox.frozen import replace
from tests.benchmarks.pipeline.paper_run import PAPER, PaperRun, replay
from tests.benchmarks.table import Row


async def measure() -> list[Row]:
    paper = await _replay(PAPER)
    options = Options(dollars=1000, nearby_seconds=0)
    ours = await _replay(options)
    bare = await _replay(replace(options, summaries=False))
    of = "strategy: codemonkeys"
    without = "summaries: false"
    return [
        Row("calls of a run by default", len(ours.requests), "calls", of, len(paper.requests)),
        Row("price of a run by default", ours.dollars, "$", of, paper.dollars),
        Row("edits written by default", _edits(ours), "edits", of, _edits(paper)),
        Row("edits delivered by default", _delivered(ours), "edits", of, _delivered(paper)),
        Row("calls with summaries", len(ours.requests), "calls", without, len(bare.requests)),
        Row("price with summaries", ours.dollars, "$", without, bare.dollars),
    ]


async def _replay(options: Options) -> PaperRun:
    with tempfile.TemporaryDirectory() as folder:
        return await replay(Path(folder), options)


def _edits(run: PaperRun) -> int:
    return len({one.call for one in run.requests if one.call.startswith("editing/")})


def _delivered(run: PaperRun) -> int:
    return int(isinstance(run.result, Selection))
