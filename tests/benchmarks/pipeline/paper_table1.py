"""What a run of the paper's size costs, in the form of its Table 1, and what is saved of it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pipeline.lab.render import table
from pipeline.lab.solving import CostLine, cost_cells
from tests.benchmarks.pipeline.approvals import compare
from tests.benchmarks.pipeline.paper_run import replay
from tests.benchmarks.table import Row

PAPER_DOLLARS = 2300 / 500
"""CodeMonkeys, section 1: about 2300 USD for the 500 issues of SWE-bench Verified."""


async def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        run = await replay(Path(folder))
    sys.stdout.write(f"{_render_costs(run.lines)}\n{_tokens(run.lines)}\n\n")
    separate, riding = await compare()
    read = 100 * run.cached / run.cacheable
    return [
        Row("input read from the cache, of what could be", read, "%", "theoretical maximum", 100),
        Row("price of a full 10 x 8 run", run.dollars, "$", "the paper's average", PAPER_DOLLARS),
        Row(
            "calls of the demo's recorded run, the same edit chosen",
            riding.calls,
            "calls",
            "each approval in a turn of its own",
            separate.calls,
        ),
    ]


def _render_costs(lines: Sequence[CostLine]) -> str:
    whole = lines[-1].dollars if lines else 0.0
    head = ("Stage", "Calls", "Input", "Output", "Cache read", "Cache write", "Total", "%", "Read")
    rows = [(*cost_cells(line, whole), f"{100 * line.read_share:.1f} %") for line in lines]
    return "\n".join(table(head, rows))


def _tokens(lines: Sequence[CostLine]) -> str:
    """The same table in tokens."""
    head = ("Stage", "Input", "Output", "Cache read", "Cache write")
    rows = [
        (line.stage, *(f"{n:,}" for n in (u.input, u.output, u.cache_read, u.cache_write)))
        for line in lines
        for u in [line.usage]
    ]
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (head, *rows)
    )
