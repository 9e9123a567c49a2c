"""The texts of a pull request: its title, commit messages, body and check run."""

from __future__ import annotations

from collections.abc import Sequence

from bot.comments import request_marker
from bot.markdown import block, code, details, line, prose
from bot.types import Run
from pipeline.types import Account, Reproduction, Selection, SuiteReport, VoteTable
from sandbox.base import Ending, Execution

BODY_CHARACTERS = 65_536
"""GitHub's limit for the body of a pull request or comment."""
LOG_CHARACTERS = (12_000, 5_000, 2_000, 600, 100)
"""How much of each log is shown: the first that lets the body fit."""
CELLS = 600
"""A table with more cells than this is summed up instead."""
RECORDED = "recorded answers"
CHECK_NAME = "Capuchin: reproduction test"


def title(selection: Selection, issue: int) -> str:
    """The pull request's title, and the fix commit's first line."""
    return line(selection.evidence.title, 100) or f"Fix issue {issue}"


def test_message(issue: int) -> str:
    """The message of the commit that adds the failing test."""
    return f"Add a failing test for #{issue}\n"


def fix_message(selection: Selection, issue: int) -> str:
    """The message of the commit that holds the edit."""
    change = line(selection.evidence.change, 1000)
    return f"{title(selection, issue)}\n\n{change}\n" if change else f"{title(selection, issue)}\n"


def body(run: Run, selection: Selection, accounts: Sequence[Account]) -> str:
    """The pull request's body, at most `BODY_CHARACTERS` long."""
    for characters in LOG_CHARACTERS[:-1]:
        text = _body(run, selection, accounts, characters)
        if len(text) <= BODY_CHARACTERS:
            return text
    return _body(run, selection, accounts, LOG_CHARACTERS[-1])


def check_summary(reproduction: Reproduction) -> str:
    """The check run's first paragraph."""
    return (
        f"{code(reproduction.path)} {_ended(reproduction.before)} without the change and "
        f"{_ended(reproduction.after)} with it."
    )


def check_text(reproduction: Reproduction) -> str:
    """Both logs, for the check run."""
    return (
        f"Command: {code(' '.join(reproduction.command), 500)}\n\n"
        f"### Before\n\n{block(reproduction.before.output, 28_000)}\n\n"
        f"### After\n\n{block(reproduction.after.output, 28_000)}\n"
    )


def _body(run: Run, selection: Selection, accounts: Sequence[Account], characters: int) -> str:
    sections = [
        *account_of(selection),
        f"Fixes #{run.issue}",
        *proof_of(selection, characters),
        answered_by(accounts),
        cost(accounts),
        f"<sub>Asked for by @{run.asked_by} · run `{run.id}`</sub>\n{request_marker(run.id)}",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def account_of(selection: Selection) -> tuple[str, ...]:
    """What was wrong and what changed: the model's words, made inert."""
    return (
        f"## What was wrong\n\n{prose(selection.evidence.cause, 3000)}",
        f"## What changed\n\n{prose(selection.evidence.change, 3000)}",
    )


def proof_of(selection: Selection, characters: int) -> tuple[str, ...]:
    """What was run and what came of it; logs cut to `characters` each."""
    return (
        f"## Evidence\n\n{_reproduction(selection.evidence.reproduction, characters)}",
        _votes(selection),
        _suite(selection.evidence.suite, characters),
        f"## Limits\n\n{_limits(selection)}",
    )


def _reproduction(test: Reproduction, characters: int) -> str:
    return "\n\n".join(
        [
            f"{code(test.path)} is new. It {_ended(test.before)} on the code as it was and "
            f"{_ended(test.after)} with the change; both were run in a sandbox without network. "
            "The first commit holds the test alone, so that you can see it fail.",
            f"Run it with {code(' '.join(test.command), 500)}.",
            details("Before: it fails", block(test.before.output, characters)),
            details("After: it passes", block(test.after.output, characters)),
        ]
    )


def _votes(selection: Selection) -> str:
    table = selection.evidence.votes
    votes = _winner_votes(selection)
    how = {
        "only one": "It was the only edit left to choose from.",
        "votes": "It passed the most of them.",
        "model": (
            "The best were compared with further tests written to tell them apart "
            f"(rounds: {selection.evidence.selection_rounds})."
        ),
    }[selection.decided_by]
    said = (
        f"{len(table.candidates)} edits were written and {len(table.tests)} tests, and every test "
        f"was run on every edit. The chosen edit passes {votes} of {len(table.tests)}. {how}"
    )
    return f"{said}\n\n{details('Edits × tests', matrix(table, selection.candidate.sample))}"


def matrix(table: VoteTable, chosen: int) -> str:
    """Candidates by tests as a Markdown table, the unedited code first, `chosen` in bold."""
    if (len(table.candidates) + 1) * len(table.tests) > CELLS:
        return "\n".join(
            f"- edit {candidate.sample + 1}: passes {table.votes(c)} of {len(table.tests)}"
            for c, candidate in enumerate(table.candidates)
        )
    tests = range(1, len(table.tests) + 1)
    rows = [
        "| | " + " | ".join(f"test {t}" for t in tests) + " | passes |",
        "|---|" + ":-:|" * (len(table.tests) + 1),
        _row("unedited code", table.base, sum(run.passed for run in table.base)),
    ]
    for c, candidate in enumerate(table.candidates):
        name = f"edit {candidate.sample + 1}"
        shown = f"**{name} (chosen)**" if candidate.sample == chosen else name
        rows.append(_row(shown, table.runs[c], table.votes(c)))
    return "\n".join(rows)


def _row(name: str, runs: Sequence[Execution], passes: int) -> str:
    return f"| {name} | " + " | ".join(_mark(run) for run in runs) + f" | {passes} |"


def _mark(run: Execution) -> str:
    if run.passed:
        return "✅"
    if run.ending is Ending.TIMEOUT:
        return "⏱"
    # Exit code 2 is "the issue is still there"; anything else means that the test broke.
    return "❌" if run.exit_code == 2 else "💥"


def _suite(suite: SuiteReport | None, characters: int) -> str:
    if suite is None:
        return "This repository has no tests of its own that I could find and run."
    before, after = suite.before, suite.after
    rows = (
        "| | passed | failed |\n|---|--:|--:|\n"
        f"| before | {len(before.passed)} | {len(before.failed)} |\n"
        f"| after | {len(after.passed)} | {len(after.failed)} |"
    )
    said = f"The repository's own tests, {code(' '.join(suite.command), 300)}:\n\n{rows}"
    if suite.broken:
        names = "\n".join(suite.broken)
        said += f"\n\nThese pass without the change and not with it:\n\n{block(names, 2000)}"
    log = block(after.execution.output, characters)
    return f"{said}\n\n{details('Output with the change', log)}"


def _limits(selection: Selection) -> str:
    said = [
        "A passing test shows that the reported case is fixed, not that nothing else changed; "
        "the test was written by the same kind of model as the edit."
    ]
    if selection.evidence.suite is None:
        said.append("No test of the repository's own was run.")
    if selection.evidence.context.dropped:
        count = len(selection.evidence.context.dropped)
        said.append(f"{count} files that seemed to matter were too large to be shown to the model.")
    return "\n".join(f"- {sentence}" for sentence in said)


def answered_by(accounts: Sequence[Account]) -> str:
    """Which models wrote this, seen without unfolding anything; empty when nothing was asked."""
    names = dict.fromkeys(model_name(account.model) for account in accounts)
    if not names:
        return ""
    said = f"Models: {', '.join(names)}."
    if RECORDED in names:
        said += " Recorded answers were written down beforehand; no live model gave them."
    return said


def cost(accounts: Sequence[Account]) -> str:
    """Calls, tokens and money by stage and model; empty when nothing was asked."""
    if not accounts:
        return ""
    rows = [
        "| stage | model | calls | tokens in | tokens out | cost |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for account in accounts:
        usage = account.usage
        read = usage.input + usage.cache_read + usage.cache_write
        rows.append(
            f"| {line(account.stage, 40)} | {model_name(account.model)} | {account.calls} "
            f"| {read:,} | {usage.output:,} | ${account.dollars:.4f} |"
        )
    dollars = sum(account.dollars for account in accounts)
    return details(f"Cost: ${dollars:.2f} at list prices", "\n".join(rows))


def model_name(name: str) -> str:
    """How a model is called before people: a recording never passes for a model."""
    return RECORDED if name.startswith("recorded") else code(name, 80)


def _ended(run: Execution) -> str:
    if run.passed:
        return "passes"
    return "fails" if run.ending is Ending.EXIT else f"fails ({run.ending.value})"


def _winner_votes(selection: Selection) -> int:
    table = selection.evidence.votes
    for c, candidate in enumerate(table.candidates):
        if candidate.sample == selection.candidate.sample:
            return table.votes(c)
    return 0
