"""Edits × tests as a Markdown table, the unedited code first, with each edit's standing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bot.markdown import code
from pipeline.types import Candidate, Standing, VoteTable
from sandbox.base import Ending, Execution

MAX_CELLS = 600
"""A larger table shows only the sums."""


def render_vote_table(
    table: VoteTable, chosen: Candidate | None, standings: Sequence[Standing] = ()
) -> str:
    """Candidates by tests, `chosen` in bold; edits that do not apply are listed below.

    `standings` (one for each candidate) add, as far as they are known: how many edits are
    equivalent, how many of the repository's tests break, the reward model's score, the log-odds.
    """
    count = len(table.tests)
    shown = range(count if (len(table.candidates) + 1) * count <= MAX_CELLS else 0)
    columns = _columns(table, standings)
    heads = ["", *(_test_heading(table, t) for t in shown), "passes", *columns]
    rows = [
        f"|{' |'.join(f' {head}'.rstrip() for head in heads)} |",
        "|---|" + ":-:|" * (len(heads) - 1),
        _render_row("unedited code", table.base, shown, ["" for _ in columns]),
    ]
    for c, candidate in enumerate(table.candidates):
        name = _candidate_name(candidate)
        bold = f"**{name} (chosen)**" if candidate == chosen else name
        rows.append(
            _render_row(bold, table.runs[c], shown, [cells[c] for cells in columns.values()])
        )
    rejected = [f"- {code(r.name, 80)} does not apply: {code(r.why, 300)}" for r in table.rejected]
    return "\n".join([*rows, *([""] if rejected else []), *rejected])


def _columns(table: VoteTable, standings: Sequence[Standing]) -> dict[str, list[str]]:
    """Extra columns by heading; a column without any value is left out."""

    def equal(s: Standing) -> str:
        first = table.candidates[s.same_as]
        return f"{s.support} ({_candidate_name(first)})" if s.support > 1 else ""

    found: dict[str, Callable[[Standing], str]] = {
        "equal edits (first)": equal,
        "breaks": lambda s: "" if s.broken is None else str(len(s.broken)),
        "reward": lambda s: "" if s.reward is None else f"{s.reward:.2f}",
        "log-odds": lambda s: f"{s.score:+.2f}",
    }
    columns = {head: [cell(s) for s in standings] for head, cell in found.items()}
    return {head: cells for head, cells in columns.items() if any(cells)}


def _candidate_name(candidate: Candidate) -> str:
    return code(candidate.source, 80) if candidate.source else candidate.name


def _test_heading(table: VoteTable, test: int) -> str:
    return f"test {test + 1}{' (flaky)' if test in table.flaky else ''}"


def _render_row(name: str, runs: Sequence[Execution], shown: range, more: Sequence[str]) -> str:
    passes = sum(run.passed for run in runs)
    return f"| {' | '.join([name, *(_cell(runs[t]) for t in shown), str(passes), *more])} |"


def _cell(run: Execution) -> str:
    if run.passed:
        return "✅"
    if run.ending is Ending.TIMEOUT:
        return "⏱"
    # Exit code 2 means that the issue is still present; any other, that the test itself broke.
    return "❌" if run.exit_code == 2 else "💥"
