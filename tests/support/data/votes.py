"""Tables of votes."""

from pipeline.data.types import Candidate, Patch, TestScript, VoteTable
from sandbox.program import Execution


def vote_table(
    base: list[int], runs: list[list[int]], samples: list[int] | None = None
) -> VoteTable:
    """Candidate `c` has test `c`; the numbers are exit codes."""
    tests = tuple(TestScript(text=f"test {t}") for t in range(len(base)))
    numbers = samples or list(range(len(runs)))
    candidates = tuple(
        Candidate(
            sample=n, patch=Patch(diff=f"diff {n}"), test=tests[c] if c < len(tests) else None
        )
        for c, n in enumerate(numbers)
    )
    return VoteTable(
        candidates=candidates,
        tests=tests,
        base=tuple(map(_exit_with, base)),
        runs=tuple(tuple(map(_exit_with, row)) for row in runs),
    )


def _exit_with(code: int) -> Execution:
    return Execution(exit_code=code, output="", seconds=0.1)
