"""The sentences of an honest no, for the maintainer."""

from __future__ import annotations

from pipeline.errors import BudgetSpent, Ceiling, TimeSpent
from pipeline.types import NoFix, NoFixReason, VoteTable
from prompts import shorten, strip_ansi
from sandbox.base import Execution

NO_PYTHON = "There is no Python file in this repository, and the tests I write are in Python."
NO_CONTEXT = "No source file that I can read has anything to do with the issue."
NO_SCRIPT = "The model never gave a script that could be run."
PLAIN_TEST = "So the edit was chosen by what had been done by then, and no model wrote its test."
NOT_DESCRIBED = "The budget was spent before the model described this."
UNPROVEN = "No test that can be committed shows the issue and the fix; the script below does."
NO_WORDS = "The run ended before a model described this."
OTHER_SUITE = "They were not run with this edit, or not to the end."
NO_TIME = "The time for one run was over before this repository's tests could be run."
NO_PLACE = "The settings of this repository (never_touch) allow no place for a new test file."
NO_EDIT = "A script that reproduces the issue was run, but no edit came in a form that applies."

_CEILINGS: dict[Ceiling, str] = {
    "run": "The ceiling for one run",
    "repository": "Today's ceiling for this repository (it begins anew at 00:00 UTC)",
    "installation": "The operator's ceiling for today (it begins anew at 00:00 UTC)",
}
_OUTPUT = 1500


def budget_sentence(spent: BudgetSpent) -> str:
    if isinstance(spent, TimeSpent):
        return str(spent)
    return f"{_CEILINGS[spent.of]} is reached: {spent}"


def explain_spent(spent: BudgetSpent) -> NoFix:
    """The honest no of a run that reached a ceiling with no edit in hand."""
    return NoFix(reason=reason_of(spent.of), details=(budget_sentence(spent),))


def reason_of(ceiling: Ceiling | None) -> NoFixReason:
    """What a run lacked that reached `ceiling`."""
    return "out of time" if ceiling == "time" else "out of budget"


def vote_sentences(table: VoteTable) -> tuple[str, ...]:
    """How the scripts went on the unedited code, and the best edit with them."""
    tests = len(table.tests)
    reporting = sum(run.exit_code == 2 for run in table.base)
    best = table.order()[0]
    facts = [
        f"{reporting} of {tests} scripts report the issue on the code as it is.",
        f"{len(table.leaders(len(table.candidates)))} different edits were tried; the best passes "
        f"{table.votes(best)} of {tests} scripts.",
    ]
    if table.flaky:
        facts.append(
            f"{len(table.flaky)} scripts do not always end the same way, and do not count."
        )
    if table.base:
        facts.append(f"The first script on the code as it is: {_outcome_sentence(table.base[0])}")
    return tuple(facts)


def _outcome_sentence(run: Execution) -> str:
    how = f"exit code {run.exit_code}" if run.exit_code is not None else run.ending.value
    return f"{how}.\n{shorten(strip_ansi(run.output).strip(), _OUTPUT)}".strip()
