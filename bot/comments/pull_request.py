"""Title, commit messages and body of a pull request, in the repository's template."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from bot.comments.evidence import (
    describe_test,
    estimate_sentence,
    render_opening,
    result_words,
    standing_sentence,
    test_sentence,
    unproven_section,
    unseen_sentence,
)
from bot.comments.evidence_details import (
    render_further,
    render_limits,
    render_scripts,
    render_suite,
)
from bot.comments.run_details import render_context
from bot.comments.status import omissions_note, pull_marker
from bot.comments.vote_table import fold_votes, render_diffs
from bot.data.run import Login, Run
from bot.safe_text import block, code, details, line, prose
from pipeline.data.types import Account, Selection, VoteTable
from pipeline.languages.registry import passes_after, shorten_failures, show_end
from pipeline.reproduction.red_green import advise_command, show_command
from pipeline.selection.scoring.confidence import UNCALIBRATED, explain_recalibration
from pipeline.selection.verdict import list_faults
from prompts.text import describe_dollars, pluralize
from sandbox.program import Execution

_HEADING_TOPICS: Final[Sequence[tuple[str, str]]] = (
    ("tests", r"\b(test|tests|tested|testing|verif\w*|qa|reproduc\w*)\b"),
    ("issue", r"\b(issues?|tickets?|closes|fixes|resolves|related|references?)\b"),
    ("cause", r"\b(why|motivation|context|problem|background|cause|reason)\b"),
    ("change", r"\b(what|changes?|changed|description|summary|solution|how|overview|proposed)\b"),
)
"""The headings for each of our texts: the first match that is still unused."""


class TemplateTexts(NamedTuple):
    """Our texts, as Markdown that is safe to post; `issue` is the line `Fixes #N`."""

    cause: str
    change: str
    issue: str
    tests: str


def fill_template(template: str, texts: TemplateTexts) -> str:
    """The template with our texts under the matching headings.

    Texts without a heading come first. A line such as `Fixes #` without a number becomes ours.
    Checkboxes are unticked: people tick them.
    """
    closes = re.compile(
        r"\b(close[sd]?|fix(e[sd])?|resolve[sd]?):?\s+#(?!\d)(issue|number|n|x+|_+)?", re.I
    )
    left = texts._asdict()
    lines: list[str] = []
    for given in template.split("\n"):
        if "issue" in left and closes.search(given):
            lines.append(left.pop("issue"))
            continue
        lines.append(re.sub(r"^(\s*[-*+] )\[[xX]\]", r"\1[ ]", closes.sub(r"\1 …", given)))
        heading = re.match(r"^ {0,3}(?:#{1,6}[ \t]++(.*)|\*\*([^*\n]+)\*\*:?[ \t]*)$", given)
        title = (heading[1] or heading[2] or "") if heading else ""
        for key, wanted in _HEADING_TOPICS:
            if heading and key in left and re.search(wanted, title, re.I):
                lines += ["", left.pop(key), ""]
                break
    first = [left[key] for key in ("cause", "change", "issue", "tests") if key in left]
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join([*first, "\n".join(lines).strip()]))


BODY_CHARACTERS = 65_536
"""GitHub's limit for the body of a pull request or comment."""
RECORDED = "recorded answers"
REVISES: Final = (
    "Comment on a line or request changes, and I will revise. Once you push to the branch, I stop "
    "changing it. I never approve or merge."
)


def pull_title(selection: Selection, issue: int) -> str:
    return line(selection.evidence.title, 90) or f"Fix issue {issue}"


def reproduction_title(issue: int) -> str:
    return f"Add a failing test for #{issue}"


def revert_title(login: Login) -> str:
    return f"Undo the edit, as @{login} asked"


def commit_body(selection: Selection) -> str:
    return line(selection.evidence.change, 1000)


def pull_body(
    run: Run,
    selection: Selection,
    accounts: Sequence[Account],
    template: str | None = None,
    *,
    destinations: str = "",
    revises: bool = True,
    absent: Sequence[str] = (),
) -> str:
    """The pull request's body, at most `BODY_CHARACTERS` long.

    With the repository's own `template`, its sections are filled in and the evidence is folded.
    `destinations` is the note on the hosts that received code; `revises`: reviews are
    answered; `absent` are the paths of submodules and files of Git LFS that were not fetched.
    """
    # A merge closes an issue only where something shows that it is fixed.
    shown = selection.is_shown and passes_after(selection.evidence.reproduction)
    fixes = f"{'Fixes' if shown else 'Refs'} #{run.issue}"
    above = [unseen_sentence(selection), render_opening(run, selection, accounts)]
    if template is None:
        above += [*explanation_sections(selection), fixes]
    else:
        texts = TemplateTexts(
            cause=prose(selection.evidence.cause, 3000),
            change=f"{prose(selection.evidence.change, 3000)}{_name_author(selection)}",
            issue=fixes,
            tests=describe_test(selection),
        )
        above.append(fill_template(template, texts))
    below = [
        models_note(accounts),
        destinations,
        render_context(selection.evidence.context, accounts),
        render_cost(accounts),
        omissions_note(run.skipped),
        REVISES if revises else "Reviews are for people to follow. I never approve or merge.",
        f"<sub>Requested by @{run.asked_by} · run `{run.id}`</sub>\n{pull_marker(run.id)}",
    ]
    body = ""
    for characters in (12_000, 5_000, 2_000, 600, 100):  # of each log
        proof = "\n\n".join(filter(None, evidence_sections(selection, characters, absent=absent)))
        shown_proof = proof if template is None else details("Evidence", proof)
        body = "\n\n".join(filter(None, [*above, shown_proof, *below])) + "\n"
        if len(body) <= BODY_CHARACTERS:
            break
    return body


def _name_author(selection: Selection) -> str:
    """Whose words cause and change are, to stand below them."""
    if not selection.evidence.described:
        return ""
    text = "Both in the words of the model that read the edit; what was run stands below."
    return f"\n\n<sub>{text}</sub>"


def explanation_sections(selection: Selection) -> tuple[str, ...]:
    return (
        f"## What was wrong\n\n{prose(selection.evidence.cause, 3000)}",
        f"## What changed\n\n{prose(selection.evidence.change, 3000)}{_name_author(selection)}",
    )


def evidence_sections(
    selection: Selection, characters: int, *, commits: bool = True, absent: Sequence[str] = ()
) -> tuple[str, ...]:
    """The executions and their results; each log is cut to `characters`.

    `commits`: the test is a separate commit, as in a pull request; else it may be in a file.
    `absent`: see `pull_body`.
    """
    shown = (
        _reproduction_section(selection, characters, commits=commits)
        if selection.is_shown
        else unproven_section(selection, characters)
    )
    return (
        f"## Evidence\n\n{shown}",
        _votes_section(selection, characters),
        render_suite(selection.evidence, characters),
        f"## Limits\n\n{render_limits(selection, absent)}",
    )


def _reproduction_section(selection: Selection, characters: int, *, commits: bool) -> str:
    test = selection.evidence.reproduction
    before, after = (result_words(test.path, run) for run in (test.before, test.after))
    if not passes_after(test):
        return "\n\n".join(
            [
                f"The reproduction test {code(test.path)} {after} with this "
                "change. It is not part of this pull request, so nothing here shows that the issue "
                "is fixed.",
                _log("The test with this change", test.after, characters),
            ]
        )
    alone = " The first commit holds only the test, so that you can see it fail."
    advised = advise_command(test)
    run_it = f"Run it with {code(advised, 500)}."
    if not commits and test.rung != "the edit's own tests":
        run_it = f"It is not in `patch.diff`: `git apply test.diff` adds it. {run_it}"
    shown = show_command(test.command)
    if advised != shown:
        run_it += f" The outputs below are from {code(shown, 500)}."
    elif PurePosixPath(test.path).stem not in shown:
        run_it += " That runs other tests, too, and so do the outputs below."
    return "\n\n".join(
        [
            f"{test_sentence(selection)} It {before} on the original code and {after} "
            f"with the change; both ran in a sandbox without network." + (alone if commits else ""),
            run_it,
            standing_sentence(selection),
            _log("Before: it fails", test.before, characters, test.path),
            details("After: it passes", block(show_end(test.after.output), characters)),
        ]
    )


def _log(title: str, run: Execution, characters: int, path: str = "") -> str:
    return details(title, block(shorten_failures(run.output, path), characters))


def _votes_section(selection: Selection, characters: int) -> str:
    proof = selection.evidence
    table = proof.votes
    flaky = f" I left out {pluralize(len(table.flaky), 'flaky script')}." if table.flaky else ""
    text = (
        f"I wrote {pluralize(len(table.candidates) - len(table.taken_over), 'edit')} and "
        f"{pluralize(len(table.tests), 'script')} for the issue, and ran every script on every "
        f"edit.{_tell_taken_over(table)}{flaky} {prose(proof.why, 2000)}"
    )
    pairs = zip(table.candidates, proof.standings, strict=False)  # without standings, no pairs
    patch = selection.candidate.patch
    agree = any(stands.support > 1 for one, stands in pairs if one.patch == patch)
    edits = "Agreeing edits" if agree else "Such edits"
    measured = (
        f"{edits} were right so often among public ones with known outcomes; the figure is partly "
        "assumed."
    )
    unknown = proof.suite is None or any(one.startswith(UNCALIBRATED) for one in proof.notes)
    if unknown and not selection.recalibration:
        measured = "That is an assumption: such edits were not measured."
    if sure := estimate_sentence(selection):
        sure += f" {measured}"
    if sure and selection.recalibration:
        sure += f" {explain_recalibration(selection.confidence, selection.recalibration)}"
    found = (*proof.notes[:5], *list_faults(table, proof.order))
    notes = "\n".join(f"- {prose(note, 400)}" for note in found)
    scripts = render_scripts(table, selection.candidate, proof.order, characters)
    further = render_further(proof.further, table, proof.order, characters)
    diffs = render_diffs(table, proof.order, characters, proof.standings)
    return "\n\n".join(
        filter(None, [text, sure, notes, fold_votes(selection), scripts, further, diffs])
    )


def _tell_taken_over(table: VoteTable) -> str:
    if not (count := len(table.taken_over)):
        return ""
    return f" {pluralize(count, 'sample')} that read others took over one of these."


def models_note(accounts: Sequence[Account]) -> str:
    """One line on the models that wrote this; empty if no model was called."""
    names = dict.fromkeys(model_name(account.model) for account in accounts)
    if not names:
        return ""
    text = f"Models: {', '.join(names)}."
    if RECORDED in names:
        text += " Recorded answers were saved beforehand; no live model wrote them."
    return text


def render_cost(accounts: Sequence[Account]) -> str:
    if not accounts:
        return ""
    rows = [
        "| stage | model | calls | tokens in | tokens out | cost |",
        "|---|---|--:|--:|--:|--:|",
    ]
    stages = {"testing": "testing (scripts)", "reproduction": "reproduction (test and description)"}
    for account in accounts:
        usage = account.usage
        read = usage.input + usage.cache_read + usage.cache_write
        stage = stages.get(account.stage) or line(account.stage, 40)
        rows.append(
            f"| {stage} | {model_name(account.model)} | {account.calls} "
            f"| {read:,} | {usage.output:,} | ${account.dollars:.4f} |"
        )
    dollars = sum(account.dollars for account in accounts)
    rows += [f"\n{prose(note, 400)}" for note in price_notes(accounts)]
    return details(f"Cost: {describe_dollars(dollars)} at list prices", "\n".join(rows))


def price_notes(accounts: Sequence[Account]) -> tuple[str, ...]:
    live = (a for a in accounts if not a.model.startswith("recorded"))
    return tuple(dict.fromkeys(account.price_note for account in live if account.price_note))


def model_name(name: str) -> str:
    """A model's name for people; a recording is always called one."""
    return RECORDED if name.startswith("recorded") else code(name, 80)
