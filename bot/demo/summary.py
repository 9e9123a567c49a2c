"""The tables that the demo prints at its end: candidates × tests, the decision, tokens and cost."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.codebase.text import agree, pluralize
from pipeline.selection.letters import name_edits, rank_edits
from pipeline.types import Account, Selection, Usage
from sandbox.base import Execution


def render_votes(chosen: Selection) -> str:
    """Rows are the unedited code and each edit, A first; a cell is the result of the script."""
    table, order = chosen.evidence.votes, chosen.evidence.order
    head = ["", *(f"script {t + 1}" for t in range(len(table.tests))), "passed"]
    rows = [head, ["unedited", *map(_cell, table.base), ""]]
    names = name_edits(table, order)
    for c in rank_edits(table, order):
        name = f"edit {names[c]}"
        if table.candidates[c].patch == chosen.candidate.patch:
            name += " (chosen)"
        rows.append([name, *map(_cell, table.runs[c]), str(table.votes(c))])
    return _align(rows)


def render_spending(accounts: Sequence[Account]) -> str:
    """One row for each stage and model, and the total."""
    rows = [["stage", "model", "calls", "input", "cache read", "cache write", "output", "dollars"]]
    total, calls, dollars = Usage(), 0, 0.0
    for account in accounts:
        rows.append(
            _spending_row(
                account.stage, account.model, account.calls, account.usage, account.dollars
            )
        )
        total, calls, dollars = (
            total + account.usage,
            calls + account.calls,
            dollars + account.dollars,
        )
    rows.append(_spending_row("total", "", calls, total, dollars))
    return _align(rows)


def _spending_row(stage: str, model: str, calls: int, usage: Usage, dollars: float) -> list[str]:
    tokens = (usage.input, usage.cache_read, usage.cache_write, usage.output)
    return [stage, model, str(calls), *map(str, tokens), f"{dollars:.4f}"]


def _cell(run: Execution) -> str:
    return f"exit {run.exit_code}" if run.exit_code is not None else run.ending.value


def _align(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(f"  {line.rstrip()}" for line in lines)


def render_decision(chosen: Selection) -> str:
    """How the edit was chosen, and the results of the repository's tests and the new test."""
    by = {
        "only one": "the only edit",
        "votes": "most votes",
        "evidence": "most evidence",
        "support": "equal to most other edits",
        "reward model": "the reward model",
        "model": f"the selection machine, after "
        f"{pluralize(len(chosen.evidence.further), 'further script')}",
        "person": "a person chose it",
    }[chosen.decided_by]
    lines = [
        f"Chosen: edit {_letter_of_choice(chosen)} ({by}); "
        f"correct with a probability of {chosen.confidence:.0%}."
    ]
    if suite := chosen.evidence.suite:
        before = len(suite.before.passed)
        verb = agree(before, "passes", "pass")
        lines.append(
            f"The package's own tests: {before} {verb} without the edit, "
            f"{len(suite.passed_after)} with it; {len(suite.broken)} broken by it."
        )
    test = chosen.evidence.reproduction
    lines.append(
        f"{test.path}: exit {test.before.exit_code} without the edit, "
        f"exit {test.after.exit_code} with it."
    )
    return "\n".join(lines)


def _letter_of_choice(chosen: Selection) -> str:
    votes, order = chosen.evidence.votes, chosen.evidence.order
    return name_edits(votes, order)[votes.candidates.index(chosen.candidate)]
