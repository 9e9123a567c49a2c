"""Why an edit was chosen, in sentences of our own. Names of tests in them are untrusted."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.selection.scoring.standings import Standings
from pipeline.selection.verdict import Verdict

_MAX_TESTS_NAMED = 10
_METHODS = {
    "voting": "It passes the most tests.",
    "exec": "It is among those that pass their test and break nothing.",
    "orm_exec": "It is among those that pass their test and break nothing.",
    "dev_search": "It passes the most tests, the repository's own counted too.",
    "ast_voting": "Most edits are equal to it.",
    "evidence": "Tests, the repository's own tests and the other edits together speak most for it.",
}


def explain_choice(standings: Standings, verdict: Verdict) -> str:
    """Who decided, and what stands for the first of `verdict.order`."""
    return f"{_describe_decision(verdict)} {describe_candidate(standings, verdict.order[0])}"


def describe_candidate(standings: Standings, candidate: int) -> str:
    """What was seen of one candidate."""
    stands = standings.entries[candidate]
    count = len(standings.entries)
    parts = [f"It passes {stands.passes} of the {len(standings.voters)} tests that vote"]
    if len(standings.voters) == 1:
        parts = [f"It {'passes' if stands.passes else 'fails'} the one test that votes"]
    if count == 2:
        how = "is equal to it" if stands.support > 1 else "differs from it"
        parts.append(f"the other edit {how} after normalisation")
    elif count > 2:
        equal = stands.support - 1
        parts.append(f"{equal} of the {count - 1} other edits are equal to it after normalisation")
    if stands.broken is not None:
        parts.append("it breaks none of the repository's tests that were run")
    return "; ".join(parts) + "."


def explain_skipped(standings: Standings, candidate: int, broken: Sequence[str]) -> str:
    """Why an edit that came before in the order was not proposed."""
    edit = standings.table.candidates[candidate]
    name = edit.source or f"Edit {edit.sample + 1}"
    if not broken:
        return f"{name} came first, but passes no test that fails without it."
    names = ", ".join(broken[:_MAX_TESTS_NAMED])
    rest = f" and {len(broken) - _MAX_TESTS_NAMED} more" if len(broken) > _MAX_TESTS_NAMED else ""
    return f"{name} came first, but breaks tests that pass now: {names}{rest}."


def _describe_decision(verdict: Verdict) -> str:
    among = len(verdict.finalists)
    match verdict.decided_by:
        case "only one":
            return "It was the only edit left to choose from."
        case "model" if verdict.rounds:
            return (
                f"A model chose it among the best {among} after running further tests on them "
                f"(rounds: {verdict.rounds})."
            )
        case "model":
            return f"A model chose it among {among} by reading them."
        case "reward model":
            return (
                f"{_METHODS[verdict.method]} Of those that were equal, a reward model put it first."
            )
        case _:
            return _METHODS.get(verdict.method, _METHODS["voting"])
