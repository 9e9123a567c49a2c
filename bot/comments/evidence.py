"""The first lines of a pull request: before, after, suite, confidence."""

from collections.abc import Mapping, Sequence
from typing import Final

from bot.data.run import Run
from bot.safe_text import block, code, details, prose, script_block
from pipeline.data.suite_reports import SKIPPED, SuiteReport
from pipeline.data.types import NOT_FIXED, Account, Reproduction, Rung, Selection
from pipeline.languages.registry import find_counts, find_error, passes_after, read_test_outcome
from pipeline.reasons import describe_cut
from pipeline.reproduction.red_green import advise_command
from pipeline.selection.explain import count_edits
from pipeline.selection.verdict import assign_letters, rank_result
from prompts.text import agree, describe_dollars, pluralize
from sandbox.program import Ending, Execution

UNPROVEN_LABEL: Final = ":unproven"


def render_opening(run: Run, selection: Selection, accounts: Sequence[Account]) -> str:
    proof = selection.evidence
    script = "" if proof.reproduction.is_committed else "the script alone: "
    lines = (
        ("Before", script + _describe_before(proof.reproduction)),
        ("After", script + _describe_after(proof.reproduction)),
        ("Suite", describe_suite(proof.suite)),
        ("Choice", _describe_choice(run, selection, accounts)),
    )
    return "\n".join(f"- **{name}:** {text}" for name, text in lines)


def _describe_before(test: Reproduction) -> str:
    if test.before.passed:
        return "the test passes without the change."
    return _describe_failure(test.path, test.before)


def _describe_after(test: Reproduction) -> str:
    match read_test_outcome(test.path, test.after):
        case "passes":
            return f"the same test passes{_counts(test.path, test.after)}"
        case "fails":
            return f"**the test fails:** {_describe_failure(test.path, test.after)}"
        case "not run":
            return f"**no test ran** ({ending_words(test.after)}){_counts(test.path, test.after)}"


def ending_words(run: Execution) -> str:
    """How a run ended, without the article: `exit code 4`, `timeout`."""
    if run.ending is not Ending.EXIT:
        return run.ending.value
    return (
        "the change and the test collide" if run.exit_code is None else f"exit code {run.exit_code}"
    )


def describe_minutes(seconds: float) -> str:
    if seconds < 90:
        return pluralize(max(1, round(seconds)), "second")
    return f"{round(seconds / 60)} minutes"


def describe_test(selection: Selection) -> str:
    test = selection.evidence.reproduction
    if not selection.is_shown:
        return f"**Unproven.** {prose(selection.evidence.unproven, 1500)}"
    before, after = (result_words(test.path, run) for run in (test.before, test.after))
    if not passes_after(test):
        text = f"{code(test.path)} {after} with the change, so it is left out."
        return f"{text} {_broken_sentence(selection)}".rstrip()
    text = (
        f"{test_sentence(selection)} It {before} on the original code and {after} with the "
        f"change. Run it with {code(advise_command(test), 500)}."
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


def result_words(path: str, run: Execution) -> str:
    """How the test file `path` ended."""
    outcome = read_test_outcome(path, run)
    return f"was not run ({ending_words(run)})" if outcome == "not run" else outcome


def _describe_failure(path: str, run: Execution) -> str:
    error = find_error(path, run.output)
    return (code(error, 200) if error else ending_words(run)) + _counts(path, run)


def _counts(path: str, run: Execution) -> str:
    counts = find_counts(path, run.output)
    return f" ({prose(counts, 100)})" if counts else ""


def describe_suite(suite: SuiteReport | None) -> str:
    if suite is None:
        return "not run; the reason is below."
    before, broken = len(suite.before.passed), len(suite.broken)
    words = f"**{broken:,} broken**" if broken else "none broken"
    verb = agree(before, "passes", "pass")
    after, more = f"{len(suite.passed_after):,} after", len(suite.passed_only_after)
    if more:
        after += f" (and {more:,} more that ran only then)"
    text = f"{before:,} of this repository's tests {verb} before, {after}; {words}"
    if skipped := len(suite.after.skipped):
        text += f"; {skipped:,} {SKIPPED}"
    if suite.chosen:
        verb = agree(suite.whole, "passes", "pass")
        counted = suite.whole and not suite.before.cut
        whole = f"{suite.whole:,} {verb} in all; " if counted else ""
        text += f" ({whole}I ran {suite.chosen})"
    cut = describe_cut(suite)
    return f"{text}. {cut}" if cut else text


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
    if selection.decided_by == "person":
        fails = not passes_after(selection.evidence.reproduction)
        doubt = "; it does not pass the reproduction test" if fails else ""
        text = f"{which}. {prose(selection.evidence.why.rstrip('.'), 200)}{doubt}"
    else:
        text = f"{which}, {selection.confidence:.0%} likely to be right"
    if accounts:
        text += f", for {describe_dollars(sum(account.dollars for account in accounts))}"
    if run.started_at is not None and run.finished_at is not None:
        text += f" in {describe_minutes((run.finished_at - run.started_at).total_seconds())}"
    return text


def estimate_sentence(selection: Selection) -> str:
    """How likely the edit is right; empty where a person overruled the estimate."""
    if selection.decided_by == "person":
        return ""
    return f"I estimate that it is correct with a probability of {selection.confidence:.0%}."


def test_sentence(selection: Selection) -> str:
    """The origin of the test, without its results; empty if none is committed."""
    test, source = selection.evidence.reproduction, selection.candidate.source
    if not test.is_committed:
        return ""
    kinds: Mapping[Rung, str] = {
        "the edit's own tests": "holds the test, which I wrote together with the edit",
        "extension": "is extended by a test",
        "new file": "is new",
        "wrapped script": "is new: it runs the script that reproduces the issue as a test",
        "script file": "is new: it is the script that reproduces the issue; no test runner runs it",
        "none": "",
    }
    kind = kinds[test.rung]
    if source and test.rung == "the edit's own tests":
        kind = f"holds the test, which came with the edit from {prose(source, 200)}"
    return f"{code(test.path)} {kind}."


def unseen_sentence(selection: Selection) -> str:
    """That the issue was not seen in the unedited code; empty where a script reported it."""
    proof = selection.evidence
    if not proof.unseen:
        return ""
    later = sum(run.exit_code == NOT_FIXED for run in proof.votes.base)
    return (
        "**What the issue describes does not happen here, as far as I can see:** all "
        f"{proof.unseen} scripts that I wrote from its text alone pass without any change. "
        f"This edit rests on {pluralize(later, 'script')} that {agree(later, 'shows', 'show')} "
        "something else, found in the code."
    )


def standing_sentence(selection: Selection) -> str:
    """How much a test that can be committed shows, by the definition of `Selection.is_proven`."""
    suite = selection.evidence.suite
    test = f"the test in {code(selection.evidence.reproduction.path)}"
    if selection.is_proven and suite:
        ran = pluralize(len(suite.before.passed), "test")
        return (
            f"**Proven**: {test} failed before the change and passes after it, and of the "
            f"repository's own tests that I ran, the {ran} that passed before still "
            f"{agree(len(suite.before.passed), 'passes', 'pass')}."
        )
    lack = "this repository's own tests were not run with the change"
    if suite:
        lack = "none of the tests that ran is known to use a changed module"
        if suite.broken:
            lack = f"the change breaks {pluralize(len(suite.broken), 'test')} that passed before"
    return (
        f"**Shown, not proven**: {test} failed before the change and passes after it, but {lack}."
    )


def unproven_title(title: str) -> str:
    return f"[unproven] {title}"


def unproven_section(selection: Selection, characters: int) -> str:
    """Why the edit is not proven, and the script with its two runs."""
    test, suffix = selection.evidence.reproduction, selection.evidence.votes.script_suffix
    return "\n\n".join(
        [
            "> [!WARNING]\n> **Unproven.** No test of this repository shows that this edit fixes "
            "the issue. Please check it with more care than usual.",
            prose(selection.evidence.unproven, 1500),
            details("The script", script_block(test.text, characters, suffix)),
            details("The script without the change", block(test.before.output, characters)),
            details("The script with the change", block(test.after.output, characters)),
        ]
    )
