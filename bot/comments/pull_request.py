"""The texts of a pull request: its title, commit messages, body and check run."""

from __future__ import annotations

from collections.abc import Sequence

from bot.comments.context import context_details
from bot.comments.pull_template import Filling, filled
from bot.comments.status import request_marker
from bot.comments.vote_table import matrix
from bot.markdown import block, code, details, line, prose
from bot.types import Run
from pipeline.codebase.text import count_of
from pipeline.types import Account, Reproduction, Selection
from pipeline.workflows.blocked_hosts import Blocked, blocked_in
from sandbox.base import Ending, Execution

BODY_CHARACTERS = 65_536
"""GitHub's limit for the body of a pull request or comment."""
LOG_CHARACTERS = (12_000, 5_000, 2_000, 600, 100)
"""How much of each log is shown: the first that lets the body fit."""
RECORDED = "recorded answers"
HOW_TO_GO_ON = (
    "Comment on a line or request changes, and I follow. Push to the branch, and it is yours: "
    "I touch it no more. I never approve or merge."
)


def title(selection: Selection, issue: int) -> str:
    """The pull request's title, and the fix commit's first line."""
    return line(selection.evidence.title, 100) or f"Fix issue {issue}"


def test_title(issue: int) -> str:
    """The first line of the commit that adds the failing test."""
    return f"Add a failing test for #{issue}"


def take_back_title(login: str) -> str:
    """The first line of the commit that takes one edit back, so that another can follow."""
    return f"Take back the edit, as @{login} asked"


def change(selection: Selection) -> str:
    """What the commit that holds the edit says beneath its title."""
    return line(selection.evidence.change, 1000)


def body(
    run: Run,
    selection: Selection,
    accounts: Sequence[Account],
    template: str | None = None,
    *,
    sent: str = "",
) -> str:
    """The pull request's body, at most `BODY_CHARACTERS` long. `sent`: where the code went.

    With a `template`, the repository's own, its sections are filled and the evidence is folded.
    """
    for characters in LOG_CHARACTERS[:-1]:
        text = _body(run, selection, accounts, characters, template, sent)
        if len(text) <= BODY_CHARACTERS:
            return text
    return _body(run, selection, accounts, LOG_CHARACTERS[-1], template, sent)


def _body(
    run: Run,
    selection: Selection,
    accounts: Sequence[Account],
    characters: int,
    template: str | None,
    sent: str,
) -> str:
    fixes, proof = f"Fixes #{run.issue}", proof_of(selection, characters)
    if template is None:
        above = [*account_of(selection), fixes, *proof]
    else:
        said = Filling(
            cause=prose(selection.evidence.cause, 3000),
            change=prose(selection.evidence.change, 3000),
            issue=fixes,
            tests=_tested(selection),
        )
        above = [filled(template, said), details("Evidence", "\n\n".join(filter(None, proof)))]
    sections = [
        *above,
        answered_by(accounts),
        sent,
        context_details(selection.evidence.context, accounts),
        cost(accounts),
        run.not_read,
        HOW_TO_GO_ON,
        f"<sub>Asked for by @{run.asked_by} · run `{run.id}`</sub>\n{request_marker(run.id)}",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _tested(selection: Selection) -> str:
    """The evidence in a sentence, for a template's section about tests."""
    test = selection.evidence.reproduction
    said = (
        f"{code(test.path)} is new: it {_ended(test.before)} on the code as it was and "
        f"{_ended(test.after)} with the change. Run it with {code(' '.join(test.command), 500)}."
    )
    suite = selection.evidence.suite
    if suite is None:
        return said
    broken = len(suite.broken)
    return f"{said} Of the repository's own tests {broken or 'none'} pass only without the change."


def account_of(selection: Selection) -> tuple[str, ...]:
    """What was wrong and what changed: the model's words, made inert."""
    return (
        f"## What was wrong\n\n{prose(selection.evidence.cause, 3000)}",
        f"## What changed\n\n{prose(selection.evidence.change, 3000)}",
    )


def proof_of(selection: Selection, characters: int, *, commits: bool = True) -> tuple[str, ...]:
    """What was run and what came of it; logs cut to `characters` each.

    `commits`: whether the test is a commit of its own, as in a pull request.
    """
    shown = _reproduction(selection.evidence.reproduction, characters, commits=commits)
    return (
        f"## Evidence\n\n{shown}",
        _votes(selection),
        _suite(selection, characters),
        f"## Limits\n\n{_limits(selection)}",
    )


def _reproduction(test: Reproduction, characters: int, *, commits: bool) -> str:
    alone = " The first commit holds the test alone, so that you can see it fail."
    return "\n\n".join(
        [
            f"{code(test.path)} is new. It {_ended(test.before)} on the code as it was and "
            f"{_ended(test.after)} with the change; both were run in a sandbox without network."
            + (alone if commits else ""),
            f"Run it with {code(' '.join(test.command), 500)}.",
            details("Before: it fails", block(test.before.output, characters)),
            details("After: it passes", block(test.after.output, characters)),
        ]
    )


def _votes(selection: Selection) -> str:
    proof = selection.evidence
    table = proof.votes
    flaky = f" {count_of(len(table.flaky), 'unsteady test')} left out." if table.flaky else ""
    said = (
        f"I wrote {count_of(len(table.candidates), 'edit')} and "
        f"{count_of(len(table.tests), 'test')}, and every test was run on every edit."
        f"{flaky} {prose(proof.why, 2000)}"
    )
    sure = (
        f"I take it to be right with a probability of {selection.confidence:.0%}. How far edits "
        "that agree are right was measured on public edits; what the executions add is assumed."
    )
    notes = "\n".join(f"- {prose(note, 400)}" for note in proof.notes[:5])
    folded = details("Edits × tests", matrix(table, selection.candidate, proof.standings))
    return "\n\n".join(filter(None, [said, sure, notes, folded]))


def _suite(selection: Selection, characters: int) -> str:
    suite = selection.evidence.suite
    if suite is None:
        problem = selection.evidence.suite_problem
        said = "This repository has no tests of its own that I could find and run."
        return f"{said} {prose(problem, 500)}".rstrip()
    before, after = suite.before, suite.after
    rows = (
        "| | passed | failed |\n|---|--:|--:|\n"
        f"| before | {len(before.passed)} | {len(before.failed)} |\n"
        f"| after | {len(after.passed)} | {len(after.failed)} |"
    )
    said = f"The repository's own tests, {code(' '.join(suite.command), 300)}:\n\n{rows}"
    if suite.chosen:
        said += f"\n\n{len(before.passed):,} of {suite.whole:,} tests that pass without the change "
        said += f"were run with it: {suite.chosen}."
    if suite.broken:
        said += f"\n\nThese pass without the change and not with it:\n\n{_names(suite.broken)}"
    if suite.flaky:
        said += "\n\nThese are left out, as they do not always pass without the change:\n\n"
        said += _names(suite.flaky)
    log = block(after.execution.output, characters)
    return f"{said}\n\n{details('Output with the change', log)}"


def _names(names: Sequence[str]) -> str:
    return block("\n".join(names), 2000)


def _limits(selection: Selection) -> str:
    said = [
        "A passing test shows that the reported case is fixed, not that nothing else changed; "
        "the test was written by the same kind of model as the edit."
    ]
    if selection.evidence.cut_short:
        said.append(selection.evidence.cut_short)
    if selection.evidence.suite is None:
        said.append("No test of the repository's own was run.")
    if selection.evidence.context.dropped:
        files = count_of(len(selection.evidence.context.dropped), "file")
        said.append(
            f"Not shown to the model that wrote the edit: {files} that may matter, but did not "
            "fit, or seemed to matter less."
        )
    if reached_for := _reached_for(blocked_in(selection)):
        said.append(reached_for)
    return "\n".join(f"- {sentence}" for sentence in said)


def _reached_for(found: Blocked) -> str:
    """What tests tried to reach, as far as their output tells; empty when it tells of nothing."""
    no_network = "there is no network in the sandbox. Whether it matters for them I cannot tell."
    if found.hosts:
        named = ", ".join(code(host, 100) for host in found.hosts)
        more = f" and {found.more} more" if found.more else ""
        return f"The output of the tests speaks of {named}{more}, not to be reached; {no_network}"
    if found.nameless:
        return (
            "The output of the tests speaks of a host that could not be reached, and does not name "
            f"it; {no_network}"
        )
    return ""


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
    rows += [f"\n{prose(note, 400)}" for note in price_notes(accounts)]
    return details(f"Cost: ${dollars:.2f} at list prices", "\n".join(rows))


def price_notes(accounts: Sequence[Account]) -> tuple[str, ...]:
    """Of models whose price is in no list: what they are counted at."""
    asked = (a for a in accounts if not a.model.startswith("recorded"))
    return tuple(dict.fromkeys(account.price_note for account in asked if account.price_note))


def model_name(name: str) -> str:
    """How a model is called before people: a recording never passes for a model."""
    return RECORDED if name.startswith("recorded") else code(name, 80)


def _ended(run: Execution) -> str:
    if run.passed:
        return "passes"
    return "fails" if run.ending is Ending.EXIT else f"fails ({run.ending.value})"
