"""What judging edits from anywhere came to, as Markdown: a comment, or the report of `select`."""

from __future__ import annotations

from typing import Final

from bot.comments.pull_request import answered_by, cost
from bot.comments.status import in_status
from bot.comments.vote_table import matrix
from bot.markdown import code, details, prose
from bot.runner.types import Chosen
from bot.types import Run
from pipeline.codebase.text import count_of
from pipeline.selection.verdict import Judged
from pipeline.types import NoFix, NoFixReason

LISTED: Final = 20
"""Edits in the order of preference; the table holds all."""
_NOTES: Final = 10
_WHY: Final[dict[NoFixReason, str]] = {
    "empty repository": "The repository has no files.",
    "no source files": "There is no Python code here, and Python tests are all that I can run.",
    "no edit": "No edit can be applied to the code as it is.",
    "no edit passes its test": "Tests fail on the code as it is, but no edit makes one pass.",
    "edits break tests": "Every edit that could be taken breaks tests that pass today.",
    "not sure enough": "The best of them is too likely to be wrong.",
    "out of budget": "A ceiling on what may be spent was reached before a test was written.",
}


def verdict_of(chosen: Chosen) -> str:
    """The verdict, why, and the table of every test on every edit, those that do not apply too."""
    choice = chosen.choice
    judged, no = choice.judged, choice.no
    parts = [_refused(no) if no else _taken(judged), _tests(judged, choice.written)]
    parts.append("\n".join(f"- {prose(note, 400)}" for note in judged.verdict.notes[:_NOTES]))
    if not no:
        parts.append(_order(judged))
    table, standings = judged.table, judged.verdict.standings
    if table.candidates or table.rejected:
        shown = matrix(table, None if no else judged.chosen, standings)
        parts.append(details("Edits × tests", shown))
    parts += [answered_by(chosen.accounts), cost(chosen.accounts)]
    return "\n\n".join(filter(None, parts))


def judged_pulls(run: Run, chosen: Chosen) -> str:
    """The status comment with the verdict on pull requests."""
    pulls = ", ".join(f"#{number}" for number in run.pulls)
    first = f"I judged {pulls}, as @{run.asked_by} asked, and pushed nothing."
    return in_status(run, f"{first}\n\n{verdict_of(chosen)}")


def reason_of(no: NoFix) -> str:
    """Why no edit is taken, in a sentence."""
    return _WHY.get(no.reason, "None of them can be taken.")


def _taken(judged: Judged) -> str:
    verdict, taken = judged.verdict, judged.chosen
    assert taken is not None
    sure = f"I take it to be right with a probability of {verdict.confidence:.0%}."
    said = f"**I would take {code(taken.name, 80)}.** {prose(verdict.why, 2000)} {sure}"
    if verdict.suite is None:
        problem = prose(verdict.suite_problem, 300)
        return f"{said}\n\nThe repository's own tests could not be run with it. {problem}".rstrip()
    after = len(verdict.suite.after.passed)
    own = f"Of the repository's own tests, {after:,} {'passes' if after == 1 else 'pass'} with it"
    return f"{said}\n\n{own}, and none fails that passes without it."


def _refused(no: NoFix) -> str:
    first = prose(no.learnt[0], 600) if no.reason == "not sure enough" and no.learnt else ""
    return f"**I would take none of them.** {reason_of(no)} {first}".rstrip()


def _tests(judged: Judged, written: int) -> str:
    tests, edits = len(judged.table.tests), len(judged.table.candidates)
    if not tests:
        return "There was no test to run: what the edits have in common decided."
    by = f"{written} of them written by me" if written else "brought by the edits or given"
    return (
        f"{count_of(tests, 'test')}, {by}: run on each of {count_of(edits, 'edit')} that apply, "
        "and on the code without any."
    )


def _order(judged: Judged) -> str:
    names = [judged.table.candidates[c].name for c in judged.verdict.order[:LISTED]]
    if len(names) < 2:
        return ""
    rows = "\n".join(f"{place}. {code(name, 80)}" for place, name in enumerate(names, 1))
    return f"The order in which I would take them:\n\n{rows}"
