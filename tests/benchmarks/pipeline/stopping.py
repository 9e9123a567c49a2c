"""What the stop rule saves and loses, in a simple world of issues that are easy or hard.

An issue has a chance to be mended by one sample, drawn evenly from 0 to 1. A wrong edit does one of
four wrong things, the first half of the time, as misunderstandings are shared. A script is faithful
(it passes right edits only), lenient (it passes any edit that changes something) or mistaken (it
passes one kind of wrong edit only), in shares of 70, 20 and 10 percent. Informed samples are drawn
as the others are, and do not count for the rule.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import NamedTuple

from pipeline.data.types import Candidate, Patch, TestScript, VoteTable
from pipeline.generation.diversity import is_informed
from pipeline.workflows.sampling import is_enough, waves
from sandbox.program import Execution
from tests.benchmarks.table import Row

ISSUES = 1000
SAMPLES = 10
FIRST = 4
INFORMED = 0.3
MIN_AGREEMENTS = (2, 3)
RIGHT = 0
_PASSES = Execution(exit_code=0, output="", seconds=0)
_FAILS = Execution(exit_code=2, output="", seconds=0)


class DrawnSample(NamedTuple):
    behaviour: int
    """`RIGHT`, or which wrong thing the edit does."""
    accepts: frozenset[int]
    """The behaviours that the script passes."""


async def measure() -> list[Row]:
    source = random.Random(5)
    issues = [_samples(source) for _ in range(ISSUES)]
    paper = _right(issues, [SAMPLES] * ISSUES)
    rows: list[Row] = []
    for least in MIN_AGREEMENTS:
        counts = [_adaptive(samples, least) for samples in issues]
        drawn, right = sum(counts) / ISSUES, _right(issues, counts)
        named = f"if {least} must agree"
        rows += [
            Row(f"samples an issue, {named}", drawn, "samples", "all of them", SAMPLES),
            Row(f"right edit chosen, {named}", right, "%", "all", paper),
        ]
    return [*rows, *_more_agreement(rows, paper)]


def _more_agreement(rows: list[Row], paper: float) -> list[Row]:
    """What one more issue solved costs, in samples, when more must agree; beside ten whole runs."""
    steps = [(row.value, chosen.value) for row, chosen in zip(rows[::2], rows[1::2], strict=True)]
    steps.append((SAMPLES, paper))
    names = [*map(str, MIN_AGREEMENTS), "all"]
    return [
        Row(
            f"samples for one more issue solved, {names[i]} to {names[i + 1]}",
            100 * (more[0] - less[0]) / gained if gained > 0 else float("inf"),
            "samples",
            "ten whole runs",
            10 * SAMPLES,
        )
        for i, (less, more) in enumerate(pairwise(steps))
        for gained in [more[1] - less[1]]
    ]


def _samples(source: random.Random) -> list[DrawnSample]:
    chance = source.random()
    return [_draw(source, chance) for _ in range(SAMPLES)]


def _right(issues: list[list[DrawnSample]], counts: list[int]) -> float:
    """Per cent of the issues for which a right edit is chosen of so many samples."""
    right = [
        _choose_behaviour(samples[:n]) == RIGHT for samples, n in zip(issues, counts, strict=True)
    ]
    return 100 * sum(right) / len(issues)


def _draw(source: random.Random, chance: float) -> DrawnSample:
    wrong = source.choice((1, 1, 1, 2, 3, 4))
    right = source.random() < chance
    kind = source.random()
    everything = frozenset(range(5))
    accepts = frozenset((RIGHT,)) if kind < 0.7 else everything if kind < 0.9 else {wrong}
    return DrawnSample(RIGHT if right else wrong, frozenset(accepts))


def _adaptive(samples: list[DrawnSample], least: int) -> int:
    """How many samples are drawn."""
    for wave in waves(SAMPLES, first=FIRST, adaptive=True):
        alone = [n for n in range(wave.stop) if not is_informed(n, INFORMED)]
        if is_enough(_table(samples[: wave.stop]), alone, len(alone), least=least):
            return wave.stop
    return SAMPLES


def _choose_behaviour(samples: list[DrawnSample]) -> int:
    table = _table(samples)
    return samples[table.order()[0]].behaviour


def _table(samples: list[DrawnSample]) -> VoteTable:
    tests = tuple(TestScript(text=str(n)) for n in range(len(samples)))
    candidates = tuple(
        Candidate(sample=n, patch=Patch(diff=f"{n}"), test=test) for n, test in enumerate(tests)
    )
    runs = tuple(
        tuple(_PASSES if one.behaviour in other.accepts else _FAILS for other in samples)
        for one in samples
    )
    return VoteTable(
        candidates=candidates, tests=tests, base=tuple(_FAILS for _ in tests), runs=runs
    )
