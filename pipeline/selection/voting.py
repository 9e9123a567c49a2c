"""Runs every test on every candidate and on the unedited code (CodeMonkeys, section 2.3)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from pipeline.bounded import bounded
from pipeline.selection.normalise import normalise
from pipeline.store import Store
from pipeline.text import shortened
from pipeline.types import Candidate, Frozen, TestScript, VoteTable
from sandbox.base import Execution, Sandbox

_OUTPUT = 4_000
"""Characters kept of what each execution printed: a table holds up to ten thousand of them."""
_SIDE_BY_SIDE = 8
"""Executions in flight at once; the sandbox may allow fewer."""


class Row(Frozen):
    """All tests with one edit."""

    runs: tuple[Execution, ...]


async def vote(
    candidates: Sequence[Candidate], *, sandbox: Sandbox, store: Store, seconds: float
) -> VoteTable:
    """The table of all candidates and their distinct tests.

    Identical edits share a row and identical tests a column, each run once; every row is saved
    under `votes/<digest>` as soon as it is whole. Candidates without a usable test add none.
    """
    texts = dict.fromkeys(c.test.text for c in candidates if c.test)
    tests = tuple(TestScript(text=text) for text in texts)
    rows: dict[str, Row] = {}
    for diff in dict.fromkeys(["", *(c.patch.diff for c in candidates)]):
        rows[diff] = await _row(diff, tests, sandbox, store, seconds)
    return VoteTable(
        candidates=tuple(candidates),
        tests=tests,
        base=rows[""].runs,
        runs=tuple(rows[c.patch.diff].runs for c in candidates),
    )


def reporting(table: VoteTable) -> list[int]:
    """The tests that report the issue on the unedited code."""
    return [t for t, run in enumerate(table.base) if run.exit_code == 2]


def finalists(table: VoteTable, count: int) -> tuple[int, ...]:
    """The first `count` distinct candidates that pass at least one test reporting the issue.

    Most votes first, then most support: edits that are equal after normalisation are one finalist,
    the shortest diff, supported by all (Agentless's voting). Then shorter diffs first.
    """
    tests = reporting(table)
    keys = [normalise(candidate.patch.diff).key for candidate in table.candidates]
    support = Counter(keys)
    ordered = sorted(table.order(), key=lambda c: (-table.votes(c), -support[keys[c]]))
    distinct: dict[str, int] = {}
    for c in ordered:
        if any(table.runs[c][t].passed for t in tests):
            distinct.setdefault(keys[c], c)
    return tuple(distinct.values())[:count]


def confidence(table: VoteTable, candidate: int) -> float:
    """The share of the tests reporting the issue that the candidate passes, from 0 to 1."""
    tests = reporting(table)
    return sum(table.runs[candidate][t].passed for t in tests) / len(tests) if tests else 0.0


async def _row(
    diff: str, tests: Sequence[TestScript], sandbox: Sandbox, store: Store, seconds: float
) -> Row:
    parts = "\0".join([diff, *(test.text for test in tests)])
    digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    key = f"votes/{digest}"
    row = await store.load(key, Row)
    if row is None:
        diffs = (diff,) if diff else ()
        runs = await bounded(
            _SIDE_BY_SIDE,
            (sandbox.run_script(test.text, diffs=diffs, seconds=seconds) for test in tests),
        )
        row = Row(runs=tuple(map(_trimmed, runs)))
        await store.save(key, row)
    return row


def _trimmed(run: Execution) -> Execution:
    return run.model_copy(update={"output": shortened(run.output, _OUTPUT)})
