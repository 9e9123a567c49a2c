"""The verdict on edits from outside, as Markdown: a comment, or the report of `select`."""

from __future__ import annotations

from typing import Final

from bot.comments.evidence.further import render_further
from bot.comments.evidence.vote_table import render_vote_table
from bot.comments.pull_request import models_note, render_cost
from bot.comments.status import render_status
from bot.markdown import code, details, prose
from bot.runner.types import Outcome
from bot.types import Run
from pipeline.codebase.text import pluralize
from pipeline.select import Choice
from pipeline.selection.letters import name_edits
from pipeline.selection.verdict import Judgement
from pipeline.types import NoFix, NoFixReason

MAX_LISTED: Final = 20
"""The ranking lists at most this many edits; the table holds all."""
_MAX_NOTES: Final = 10
_ABSTENTION_REASONS: Final[dict[NoFixReason, str]] = {
    "empty repository": "The repository has no files.",
    "no source files": "There is no Python code here, and I can only run Python tests.",
    "no reproduction": "No independent test shows that the issue is fixed.",
    "no edit": "No edit applies to the current code.",
    "no edit passes its test": "Tests fail on the current code, but no edit makes one pass.",
    "edits break tests": "Every eligible edit breaks tests that pass today.",
    "not sure enough": "The best one is too likely to be wrong.",
    "out of budget": "The spending limit was reached before a test was written.",
    "out of time": "The time limit was reached before a test was written.",
}


_SCRIPT_CHARACTERS: Final = 4000
_LIMIT: Final = (
    "Tests share a process with the edit they judge. I run controls that must fail, but an edit "
    "written to deceive both can: read it before you merge it."
)


def render_verdict(chosen: Outcome[Choice]) -> str:
    """The verdict, its reason, and the table of all tests on all edits."""
    choice = chosen.result
    judged, no = choice.judged, choice.no_fix
    parts = [
        _abstention_sentence(no) if no else _choice_sentence(judged),
        _tests_sentence(judged, choice.written),
    ]
    parts.append("\n".join(f"- {prose(note, 400)}" for note in judged.verdict.notes[:_MAX_NOTES]))
    if not no:
        parts.append(_ranking(judged))
    table, standings = judged.table, judged.verdict.standings
    if table.tests and table.candidates:
        parts.append(_LIMIT)
    if table.candidates or table.rejected:
        taken = None if no else judged.chosen
        shown = render_vote_table(table, taken, standings, order=judged.verdict.order)
        parts.append(details("Edits × tests", shown))
        further, order = judged.verdict.further, judged.verdict.order
        parts.append(render_further(further, table, order, _SCRIPT_CHARACTERS))
    parts += [models_note(chosen.accounts), render_cost(chosen.accounts)]
    return "\n\n".join(filter(None, parts))


def render_pull_verdict(run: Run, chosen: Outcome[Choice]) -> str:
    """The status comment with the verdict on pull requests."""
    pulls = ", ".join(f"#{number}" for number in run.pulls)
    first = f"I compared {pulls}, as @{run.asked_by} asked, and pushed nothing."
    return render_status(run, f"{first}\n\n{render_verdict(chosen)}")


def abstention_reason(no: NoFix) -> str:
    """Why no edit was chosen, as a sentence."""
    return _ABSTENTION_REASONS.get(no.reason, "None of them is eligible.")


def _choice_sentence(judged: Judgement) -> str:
    verdict, taken = judged.verdict, judged.chosen
    assert taken is not None
    sure = f"I estimate that it is correct with a probability of {verdict.confidence:.0%}."
    name = name_edits(judged.table, verdict.order)[verdict.order[0]]
    text = f"**I would choose {code(name, 80)}.** {prose(verdict.why, 2000)} {sure}"
    if verdict.suite is None:
        problem = prose(verdict.suite_problem, 300)
        return f"{text}\n\nI could not run the repository's own tests with it. {problem}".rstrip()
    after = len(verdict.suite.passed_after)
    own = f"Of the repository's own tests, {after:,} {'passes' if after == 1 else 'pass'} with it"
    return f"{text}\n\n{own}, and every test that passes without it still passes."


def _abstention_sentence(no: NoFix) -> str:
    first = prose(no.details[0], 600) if no.reason == "not sure enough" and no.details else ""
    return f"**I would choose none of them.** {abstention_reason(no)} {first}".rstrip()


def _tests_sentence(judged: Judgement, written: int) -> str:
    tests, edits = len(judged.table.tests), len(judged.table.candidates)
    if not tests:
        return "There was no test to run, so I compared what the edits have in common."
    by = f"{written} written by me" if written else "from the edits or the request"
    return (
        f"I ran {pluralize(tests, 'test')} ({by}) on the unedited code and on "
        f"{pluralize(edits, 'applicable edit')}."
    )


def _ranking(judged: Judgement) -> str:
    order = judged.verdict.order
    called = name_edits(judged.table, order)
    names = [called[c] for c in order[:MAX_LISTED]]
    if len(names) < 2:
        return ""
    rows = "\n".join(f"{place}. {code(name, 80)}" for place, name in enumerate(names, 1))
    return f"My order of preference:\n\n{rows}"
