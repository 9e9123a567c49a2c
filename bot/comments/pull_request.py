"""Title, commit messages and body of a pull request, in the repository's template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bot.comments.evidence import (
    describe_test,
    drop_progress,
    failure_words,
    render_opening,
    result_words,
    shorten_failures,
    show_end,
    test_sentence,
    unproven_section,
)
from bot.comments.evidence_details import render_further, render_limits, render_suite
from bot.comments.run_details import render_context
from bot.comments.status import omissions_note, pull_marker
from bot.comments.vote_table import render_diffs, render_vote_table
from bot.data.run import Login, Run
from bot.safe_text import block, code, details, line, prose
from pipeline.codebase.text import pluralize
from pipeline.data.suite_reports import read_test_outcome
from pipeline.data.types import Account, Selection
from pipeline.reproduction.red_green import advise_command, show_command
from pipeline.selection.scoring.confidence import explain_recalibration
from sandbox.program import Execution

_HEADING = re.compile(r"^ {0,3}(?:#{1,6}[ \t]++(?P<hash>.*)|\*\*(?P<bold>[^*\n]+)\*\*:?[ \t]*)$")
_BOX = re.compile(r"^(\s*[-*+] )\[[xX]\]")
_CLOSES = re.compile(
    r"\b(close[sd]?|fix(e[sd])?|resolve[sd]?):?\s+#(?!\d)(issue|number|n|x+|_+)?", re.I
)
_HEADING_TOPICS: Final[Sequence[tuple[str, re.Pattern[str]]]] = (
    ("tests", re.compile(r"\b(test|tests|tested|testing|verif\w*|qa|reproduc\w*)\b", re.I)),
    (
        "issue",
        re.compile(r"\b(issues?|tickets?|closes|fixes|resolves|related|references?)\b", re.I),
    ),
    ("cause", re.compile(r"\b(why|motivation|context|problem|background|cause|reason)\b", re.I)),
    (
        "change",
        re.compile(
            r"\b(what|changes?|changed|description|summary|solution|how|overview|proposed)\b", re.I
        ),
    ),
)
"""Which of our texts belongs under a heading: the first match that is not used yet."""


class TemplateTexts(NamedTuple):
    """Our texts, as Markdown that is safe to post."""

    cause: str
    change: str
    issue: str
    """`Fixes #N`, on its own line."""
    tests: str


def fill_template(template: str, texts: TemplateTexts) -> str:
    """The template with our texts under the matching headings.

    Texts without a heading come first. A line such as `Fixes #` without a number becomes ours.
    Checkboxes are unticked: people tick them.
    """
    left = texts._asdict()
    lines: list[str] = []
    for given in template.split("\n"):
        if "issue" in left and _CLOSES.search(given):
            lines.append(left.pop("issue"))
            continue
        lines.append(_BOX.sub(r"\1[ ]", _CLOSES.sub(r"\1 …", given)))
        heading = _HEADING.match(given)
        title = (heading["hash"] or heading["bold"] or "") if heading else ""
        for key, wanted in _HEADING_TOPICS:
            if heading and key in left and wanted.search(title):
                lines += ["", left.pop(key), ""]
                break
    first = [left[key] for key in ("cause", "change", "issue", "tests") if key in left]
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join([*first, "\n".join(lines).strip()]))


BODY_CHARACTERS = 65_536
"""GitHub's limit for the body of a pull request or comment."""
LOG_CHARACTERS = (12_000, 5_000, 2_000, 600, 100)
"""How much of each log is shown: the first size with which the body fits."""
RECORDED = "recorded answers"
_TEST_DIFF = "It is not in `patch.diff`: `git apply test.diff` adds it. "
_STAGES: Mapping[str, str] = {
    "testing": "testing (scripts)",
    "reproduction": "reproduction (test and description)",
}
"""Names of stages that do not say what was written."""
NEXT_STEPS = (
    "Comment on a line or request changes, and I will revise. If you push to the branch, it is "
    "yours: I will not change it any more. I never approve or merge."
)


def pull_title(selection: Selection, issue: int) -> str:
    """The pull request's title, and the fix commit's first line."""
    return line(selection.evidence.title, 100) or f"Fix issue {issue}"


def reproduction_title(issue: int) -> str:
    """The first line of the commit that adds the failing test."""
    return f"Add a failing test for #{issue}"


def revert_title(login: Login) -> str:
    """The first line of the commit that reverts one edit before another replaces it."""
    return f"Undo the edit, as @{login} asked"


def commit_body(selection: Selection) -> str:
    """The body of the commit that holds the edit."""
    return line(selection.evidence.change, 1000)


def pull_body(
    run: Run,
    selection: Selection,
    accounts: Sequence[Account],
    template: str | None = None,
    *,
    destinations: str = "",
) -> str:
    """The pull request's body, at most `BODY_CHARACTERS` long.

    With the repository's own `template`, its sections are filled in and the evidence is folded.
    `destinations` is the note on which hosts received code.
    """
    for characters in LOG_CHARACTERS[:-1]:
        text = _render_body(run, selection, accounts, characters, template, destinations)
        if len(text) <= BODY_CHARACTERS:
            return text
    return _render_body(run, selection, accounts, LOG_CHARACTERS[-1], template, destinations)


def _render_body(
    run: Run,
    selection: Selection,
    accounts: Sequence[Account],
    characters: int,
    template: str | None,
    destinations: str,
) -> str:
    fixes, proof = f"Fixes #{run.issue}", evidence_sections(selection, characters)
    opening = render_opening(run, selection, accounts)
    if template is None:
        above = [opening, *explanation_sections(selection), fixes, *proof]
    else:
        text = TemplateTexts(
            cause=prose(selection.evidence.cause, 3000),
            change=prose(selection.evidence.change, 3000),
            issue=fixes,
            tests=describe_test(selection),
        )
        above = [
            opening,
            fill_template(template, text),
            details("Evidence", "\n\n".join(filter(None, proof))),
        ]
    sections = [
        *above,
        models_note(accounts),
        destinations,
        render_context(selection.evidence.context, accounts),
        render_cost(accounts),
        omissions_note(run.skipped),
        NEXT_STEPS,
        f"<sub>Requested by @{run.asked_by} · run `{run.id}`</sub>\n{pull_marker(run.id)}",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def explanation_sections(selection: Selection) -> tuple[str, ...]:
    """The cause and the change, in the model's words, made inert."""
    return (
        f"## What was wrong\n\n{prose(selection.evidence.cause, 3000)}",
        f"## What changed\n\n{prose(selection.evidence.change, 3000)}",
    )


def evidence_sections(
    selection: Selection, characters: int, *, commits: bool = True
) -> tuple[str, ...]:
    """The executions and their results; each log is cut to `characters`.

    `commits`: whether the test is a separate commit, as in a pull request; else it may lie in a
    file beside the report.
    """
    shown = (
        _reproduction_section(selection, characters, commits=commits)
        if selection.is_proven
        else unproven_section(selection, characters)
    )
    return (
        f"## Evidence\n\n{shown}",
        _votes_section(selection, characters),
        render_suite(selection.evidence, characters),
        f"## Limits\n\n{render_limits(selection)}",
    )


def _reproduction_section(selection: Selection, characters: int, *, commits: bool) -> str:
    test = selection.evidence.reproduction
    if read_test_outcome(test.after) != "passes":
        return "\n\n".join(
            [
                f"The reproduction test {code(test.path)} {failure_words(test.after)} with this "
                "change. It is not part of this pull request, so nothing here shows that the issue "
                "is fixed.",
                _log("The test with this change", test.after, characters),
            ]
        )
    alone = " The first commit holds only the test, so that you can see it fail."
    advised = advise_command(test)
    ran = show_command(test.command)
    whole = " The outputs below are of all tests in this file." if advised != ran else ""
    beside = "" if commits or test.rung == "the edit's own tests" else _TEST_DIFF
    return "\n\n".join(
        [
            f"{test_sentence(selection)} It {result_words(test.before)} on the original code and "
            f"{result_words(test.after)} with the change; both ran in a sandbox without network."
            + (alone if commits else ""),
            f"{beside}Run it with {code(advised, 500)}.{whole}",
            _log("Before: it fails", test.before, characters),
            details(
                "After: it passes", block(show_end(drop_progress(test.after.output)), characters)
            ),
        ]
    )


def _log(title: str, run: Execution, characters: int) -> str:
    return details(title, block(shorten_failures(drop_progress(run.output)), characters))


def _votes_section(selection: Selection, characters: int) -> str:
    proof = selection.evidence
    table = proof.votes
    flaky = f" I left out {pluralize(len(table.flaky), 'flaky script')}." if table.flaky else ""
    text = (
        f"I wrote {pluralize(len(table.candidates), 'edit')} and "
        f"{pluralize(len(table.tests), 'script')} for the issue, and ran "
        "every script on every edit."
        f"{flaky} {prose(proof.why, 2000)}"
    )
    edits = "agreeing edits" if _has_equal(selection) else "such edits"
    sure = (
        f"I estimate that it is correct with a probability of {selection.confidence:.0%}. That "
        f"rests on how often {edits} were right among public ones whose correctness is known, "
        "and in part on assumptions."
    )
    if selection.recalibration:
        sure += f" {explain_recalibration(selection.confidence, selection.recalibration)}"
    notes = "\n".join(f"- {prose(note, 400)}" for note in proof.notes[:5])
    shown = render_vote_table(
        table, selection.candidate, proof.standings, order=proof.order, reproduced=proof.reproduced
    )
    folded = details("Edits × scripts", shown)
    further = render_further(proof.further, table, proof.order, characters)
    diffs = render_diffs(table, proof.order, characters, proof.standings)
    return "\n\n".join(filter(None, [text, sure, notes, folded, further, diffs]))


def _has_equal(selection: Selection) -> bool:
    """Whether another edit is the same code as the chosen one."""
    proof, patch = selection.evidence, selection.candidate.patch
    pairs = zip(proof.votes.candidates, proof.standings, strict=False)  # there may be no standings
    return any(stands.support > 1 for one, stands in pairs if one.patch == patch)


def models_note(accounts: Sequence[Account]) -> str:
    """Which models wrote this, in one line; empty if no model was called."""
    names = dict.fromkeys(model_name(account.model) for account in accounts)
    if not names:
        return ""
    text = f"Models: {', '.join(names)}."
    if RECORDED in names:
        text += " Recorded answers were saved beforehand; no live model wrote them."
    return text


def render_cost(accounts: Sequence[Account]) -> str:
    """Calls, tokens and cost by stage and model; empty if no model was called."""
    if not accounts:
        return ""
    rows = [
        "| stage | model | calls | tokens in | tokens out | cost |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for account in accounts:
        usage = account.usage
        read = usage.input + usage.cache_read + usage.cache_write
        stage = _STAGES.get(account.stage) or line(account.stage, 40)
        rows.append(
            f"| {stage} | {model_name(account.model)} | {account.calls} "
            f"| {read:,} | {usage.output:,} | ${account.dollars:.4f} |"
        )
    dollars = sum(account.dollars for account in accounts)
    rows += [f"\n{prose(note, 400)}" for note in price_notes(accounts)]
    return details(f"Cost: ${dollars:.2f} at list prices", "\n".join(rows))


def price_notes(accounts: Sequence[Account]) -> tuple[str, ...]:
    """The assumed prices of models without a list price."""
    live = (a for a in accounts if not a.model.startswith("recorded"))
    return tuple(dict.fromkeys(account.price_note for account in live if account.price_note))


def model_name(name: str) -> str:
    """A model's name for people; a recording is always named as one."""
    return RECORDED if name.startswith("recorded") else code(name, 80)
