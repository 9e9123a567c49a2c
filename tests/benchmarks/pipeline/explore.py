"""The exploring machine: turns a second, cache reads, and the memory of many side by side."""

from __future__ import annotations

from tests.benchmarks.pipeline.explorers import measure_explorers
from tests.benchmarks.table import Row

EXPLORERS = 20
MEGABYTES = 300
"""The memory that they may take together, beyond the sandboxes."""


async def measure() -> list[Row]:
    alone = await measure_explorers(1, 40)
    many = await measure_explorers(EXPLORERS, 10)
    return [
        Row(
            "turns of one explorer, with a model that answers at once",
            alone.turns / alone.seconds,
            "turns/s",
            f"{EXPLORERS} side by side",
            many.turns / many.seconds,
        ),
        Row(
            "40 turns: input read from the cache, of what could be",
            100 * alone.cached / alone.cacheable,
            "%",
            "required",
            95,
        ),
        Row(
            "the same, of what could be if no old result were left out",
            100 * alone.cached / alone.unabridged,
            "%",
            "theoretical maximum",
            100,
        ),
        Row(
            f"memory of {EXPLORERS} explorers beyond the sandboxes",
            many.megabytes,
            "MB",
            "required",
            MEGABYTES,
        ),
    ]
