"""The four lines that open a pull request: before, after, the suite, the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bot.comments.evidence.test_output import find_counts, find_error
from bot.markdown import block, code, details, prose
from bot.types import Run
from pipeline.codebase.text import agree, pluralize
from pipeline.reasons import describe_cut
from pipeline.reproduction.advised import advise_command
from pipeline.selection.explain import count_edits
from pipeline.selection.letters import assign_letters, rank_result
from pipeline.types import Account, Reproduction, Rung, Selection, SuiteReport, read_test_outcome
from sandbox.base import Ending, Execution

UNPROVEN_LABEL: Final = ":unproven"
"""Behind the bot's own label."""
_KINDS: Final[Mapping[Rung, str]] = {
    "the edit's own tests": "holds the test, which I wrote together with the edit",
    "extension": "is extended by a test",
    "new file": "is new",
    "wrapped script": "is new: it runs the script that reproduces the issue as a test",
    "script file": "is new: it is the script that reproduces the issue, and no test runner runs it",
    "none": "",
}
_ERROR_CHARACTERS = 200


def render_opening(run: Run, selection: Selection, accounts: Sequence[Account]) -> str:
    """A list of four lines, each of which can be read alone."""
    proof = selection.evidence
    script = "" if proof.reproduction.is_committed else "the script alone: "
    lines = (
        ("Before", script + describe_before(proof.reproduction)),
        ("After", script + describe_after(proof.reproduction)),
        ("Suite", _describe_suite(proof.suite)),
        ("Choice", _describe_choice(run, selection, accounts)),
    )
    return "\n".join(f"- **{name}:** {text}" for name, text in lines)


def describe_before(test: Reproduction) -> str:
    """The reproduction test on the original code, with the error itself."""
    if read_test_outcome(test.before) == "passes":
        return "the test passes without the change."
    return f"{_error(test.before)}{_counts(test.before)}"


def describe_after(test: Reproduction) -> str:
    """The same test with the change."""
    match read_test_outcome(test.after):
        case "passes":
            return f"the same test passes{_counts(test.after)}"
        case "fails":
            return f"**the test fails:** {_error(test.after)}{_counts(test.after)}"
        case "not run":
            return f"**the test was not run** ({ending_words(test.after)})"


def ending_words(run: Execution) -> str:
    """How a run ended, without the article: `exit code 4`, `timeout`."""
    if run.ending is not Ending.EXIT:
        return run.ending.value
    return (
        "the change and the test collide" if run.exit_code is None else f"exit code {run.exit_code}"
    )


def describe_minutes(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 90:
        return pluralize(max(1, round(seconds)), "second")
    return f"{round(seconds / 60)} minutes"


def describe_test(selection: Selection) -> str:
    """The evidence in a sentence, for a template's section about tests."""
    test = selection.evidence.reproduction
    if not selection.is_proven:
        return f"**Unproven.** {prose(selection.evidence.unproven, 1500)}"
    if read_test_outcome(test.after) != "passes":
        text = f"{code(test.path)} {failure_words(test.after)} with the change, so it is left out."
        return f"{text} {_broken_sentence(selection)}".rstrip()
    text = (
        f"{test_sentence(selection)} It {result_words(test.before)} on the original code and "
        f"{result_words(test.after)} with the change. "
        f"Run it with {code(advise_command(test), 500)}."
    )
    return f"{text} {_broken_sentence(selection)}".rstrip()


def _broken_sentence(selection: Selection) -> str:
    suite = selection.evidence.suite
    if suite is None:
        return ""
    broken = len(suite.broken)
    verb = agree(broken, "passes", "pass")
    text = f"Of the repository's own tests, {broken or 'none'} {verb} only without the change."
    return f"{text} {describe_cut(suite)}".rstrip()


def result_words(run: Execution) -> str:
    """What a test does, as the verb of a sentence."""
    match read_test_outcome(run):
        case "passes":
            return "passes"
        case "fails":
            return "fails"
        case "not run":
            return f"does not end as a test does ({ending_words(run)})"


def failure_words(run: Execution) -> str:
    """What a test did that does not pass, as the verb of a sentence."""
    if read_test_outcome(run) == "fails":
        return "fails"
    return f"was not run ({ending_words(run)})"


def _error(run: Execution) -> str:
    error = find_error(run.output)
    return code(error, _ERROR_CHARACTERS) if error else ending_words(run)


def _counts(run: Execution) -> str:
    counts = find_counts(run.output)
    return f" ({prose(counts, 100)})" if counts else ""


def _describe_suite(suite: SuiteReport | None) -> str:
    if suite is None:
        return "not run; the reason is below."
    before, broken = len(suite.before.passed), len(suite.broken)
    words = f"**{broken:,} broken**" if broken else "none broken"
    verb = agree(before, "passes", "pass")
    after = _count_passed_after(suite)
    text = f"{before:,} of this repository's tests {verb} before, {after}; {words}"
    if suite.chosen:
        verb = agree(suite.whole, "passes", "pass")
        counted = suite.whole and not suite.before.cut
        whole = f"{suite.whole:,} {verb} in all; " if counted else ""
        text += f" ({whole}I ran {suite.chosen})"
    cut = describe_cut(suite)
    return f"{text}. {cut}" if cut else text


def _count_passed_after(suite: SuiteReport) -> str:
    """How many of the repository's tests pass with the edit; those that it brings apart."""
    text, more = f"{len(suite.passed_after):,} after", len(suite.passed_only_after)
    return f"{text} (and {more:,} more that ran only then)" if more else text


def _describe_choice(run: Run, selection: Selection, accounts: Sequence[Account]) -> str:
    votes = selection.evidence.votes
    letter = assign_letters(votes, selection.evidence.order)[
        votes.candidates.index(selection.candidate)
    ]
    edits = len(rank_result(selection))
    different = len({one.same_as for one in selection.evidence.standings}) or edits
    which = f"edit {letter} of {edits}" if edits > 1 else "my only edit"
    if different < edits:
        which = f"edit {letter} ({count_edits(len(votes.candidates), different)})"
    text = f"{which}, {selection.confidence:.0%} likely to be right"
    if accounts:
        text += f", for ${sum(account.dollars for account in accounts):.2f}"
    if run.started_at is not None and run.finished_at is not None:
        text += f" in {describe_minutes((run.finished_at - run.started_at).total_seconds())}"
    return text


def test_sentence(selection: Selection) -> str:
    """What the test is and whose, without its results; empty when none is committed."""
    test, source = selection.evidence.reproduction, selection.candidate.source
    if not test.is_committed:
        return ""
    kind = _KINDS[test.rung]
    if source and test.rung == "the edit's own tests":
        kind = f"holds the test, which came with the edit from {prose(source, 200)}"
    return f"{code(test.path)} {kind}."


def unproven_title(title: str) -> str:
    """The title of a pull request with an edit that is not proven."""
    return f"[unproven] {title}"


def unproven_section(selection: Selection, characters: int) -> str:
    """Why the edit is not proven, and the script with its two runs."""
    test = selection.evidence.reproduction
    return "\n\n".join(
        [
            "> [!WARNING]\n> **Unproven.** No test of this repository shows that this edit fixes "
            "the issue. Please check it with more care than usual.",
            prose(selection.evidence.unproven, 1500),
            details("The script", block(test.text, characters, "python")),
            details("The script without the change", block(test.before.output, characters)),
            details("The script with the change", block(test.after.output, characters)),
        ]
    )
