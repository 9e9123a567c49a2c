"""Finding a block in a file of 20 000 lines, against difflib over the whole file."""

from __future__ import annotations

import difflib
import statistics
import time
from collections.abc import Callable

from pipeline.edits.match import Missing, find_nearest, replace_once
from tests.benchmarks.table import Row

LINES = 20_000
ROUNDS = 7


async def measure() -> list[Row]:
    lines = [f"    value_{n} = compute({n}, factor={n % 7}, name='x{n}')" for n in range(LINES)]
    text = "\n".join(lines) + "\n"
    there = lines[15_000:15_006]
    shifted = [line.strip() for line in there]
    absent = [line.replace("compute", "compte") for line in there]

    def suggest() -> None:
        assert isinstance(replace_once(text, absent, []), Missing)
        assert find_nearest(text, absent) is not None

    baseline = _median(lambda: _by_difflib(lines, there), 1)
    return [
        _row("exact", _median(lambda: replace_once(text, there, ["pass"])), baseline),
        _row(
            "indentation mended", _median(lambda: replace_once(text, shifted, ["pass"])), baseline
        ),
        _row("suggestion", _median(suggest), baseline),
    ]


def _row(name: str, value: float, baseline: float) -> Row:
    return Row(f"edit of {LINES} lines, {name}", value, "ms", "difflib over the file", baseline)


def _median(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Milliseconds."""
    took: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def _by_difflib(lines: list[str], sought: list[str]) -> int:
    """Where the most similar lines begin, each place compared."""
    matcher = difflib.SequenceMatcher(b="\n".join(sought), autojunk=False)
    best, where = 0.0, 0
    for at in range(0, len(lines), len(sought)):
        matcher.set_seq1("\n".join(lines[at : at + len(sought)]))
        likeness = matcher.quick_ratio()
        if likeness > best:
            best, where = likeness, at
    return where
