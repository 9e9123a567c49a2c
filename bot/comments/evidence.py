"""The first lines of a pull request: before, after, suite, confidence; errors in test output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from bot.data.run import Run
from bot.safe_text import block, code, details, prose, script_block
from pipeline.codebase.text import agree, pluralize
from pipeline.data.suite_reports import SuiteReport
from pipeline.data.types import Account, Reproduction, Rung, Selection
from pipeline.languages.registry import read_test_outcome
from pipeline.reasons import describe_cut
from pipeline.reproduction.red_green import advise_command
from pipeline.selection.explain import count_edits
from pipeline.selection.verdict import assign_letters, rank_result
from prompts.text import strip_ansi
from sandbox.program import Ending, Execution

_PYTEST_ERROR = re.compile(r"^E {3,}(\S.*)$", re.M)
_PYTHON_ERROR = re.compile(
    r"^((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Warning)\b.*)$", re.M
)
_RUNNER_ERROR = re.compile(r"^(?:ERROR|FAILED|assert)\b.*$", re.M)
_COUNTS = re.compile(
    r"^(?:=+ )?(?:tests finished: )?"
    r"((?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)"
    r"(?:, )?)+(?: in [\d.]+ ?s)?)",
    re.M,
)
_UNITTEST_COUNT = re.compile(r"^Ran (\d+ tests?)\b.*\n", re.M)
_UNITTEST_END = re.compile(r"^((?:OK|FAILED)\b.*)$", re.M)
"""Searched after the count: one pattern for both takes quadratic time."""
_HEADING = re.compile(r"^(?:_+ (?!slowest tests ).+ _+|(?:FAIL|ERROR): .+)$", re.M)
"""The first line of a failure. pytest makes its rule shorter the longer the test's name is; SymPy's
runner puts a list of slow tests under such a rule."""
_CAPTURED = re.compile(r"-{3,} Captured |=+ (?:short test summary|\d)")
MOST_LINES = 80


def find_error(output: str) -> str:
    """The first error of pytest or in a Python traceback, else the last line. Untrusted."""
    text = strip_ansi(output)
    for pattern in (_PYTEST_ERROR, _PYTHON_ERROR, _RUNNER_ERROR):
        if found := pattern.search(text):
            return (found[1] if found.groups() else found[0]).strip()
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def find_counts(output: str) -> str:
    """The counts of results, as in `1 failed, 2 passed`; empty if the output does not say."""
    text = strip_ansi(output)
    if pytest := _COUNTS.findall(text):
        return re.sub(r" in [\d.]+ ?s$", "", str(pytest[-1])).strip(", ")
    if (count := _UNITTEST_COUNT.search(text)) and (end := _UNITTEST_END.search(text, count.end())):
        return f"{count[1]}, {end[1]}"
    return ""


def shorten_failures(output: str) -> str:
    """The first failure and the summary; the whole output if it has fewer than two failures."""
    text = strip_ansi(output).replace("\r\n", "\n")
    total = _count_failures(text)
    failures = _find_failures(text, total)
    if len(failures) < 2:
        at = failures[0].start() if failures else 0
        return text[:at] + _cut_sources(text[at:]) if failures else output
    first, second = failures[0].start(), failures[1].start()
    left = max(total or len(failures), 2) - 1
    note = f"[... {left} more {'failure' if left == 1 else 'failures'} left out ...]"
    # unittest prints this line before each failure: here it belongs to the second.
    failure = re.sub(r"(?m)^={20,}\n+\Z", "", text[first:second]).rstrip("\n")
    return "\n".join(filter(None, (_cut_sources(failure), note, _cut_summary(text, second))))


def _cut_sources(failure: str) -> str:
    """A long failure as pytest prints it, with the sources of its frames cut to the lines around
    the one that failed; what it captured stays."""
    lines = failure.split("\n")
    end = next((at for at, line in enumerate(lines) if _CAPTURED.match(line)), len(lines))
    marked = [at for at in range(end) if lines[at][:2] in ("> ", ">\t")]
    if end <= MOST_LINES or not marked:
        return failure
    told = [at for at in range(end) if re.match(r"E  |\S+:\d+: \w", lines[at])]
    # Of a long chain of calls, the ends: where the test called, and where it broke.
    around = [*marked[:3], *marked[3:][-2:]]
    kept = {0, *told[: MOST_LINES // 2], *told[-MOST_LINES // 4 :], *range(end, len(lines))}
    kept |= {near for at in around for near in range(max(0, at - 6), min(end, at + 3))}
    shown: list[str] = []
    last = -1
    for at in sorted(kept):
        gap = lines[last + 1 : at]
        shown += gap if len(gap) < 3 else [f"[... {len(gap)} lines left out ...]"]
        shown.append(lines[at])
        last = at
    return "\n".join(shown)


def show_end(output: str) -> str:
    """The summary of a run that passed, else the whole output."""
    return _cut_summary(strip_ansi(output).replace("\r\n", "\n")) or output


def _count_failures(text: str) -> int | None:
    """How many tests failed or had errors, by the runner's last line; None if it does not say."""
    unittest_end = re.compile(r"^FAILED (\([\w =,]{1,200}\))$", re.M)
    ends = [*_COUNTS.finditer(text), *unittest_end.finditer(text)]
    if not ends:
        return None
    last = max(ends, key=lambda end: end.start())
    failed = r"(\d{1,9}) (?:failed|errors?)\b|(?<!expected )\b(?:failures|errors)=(\d{1,9})"
    return sum(int(pytest or unittest) for pytest, unittest in re.findall(failed, last[1]))


def _find_failures(text: str, total: int | None) -> list[re.Match[str]]:
    """The headings of the failures. If a test printed some, too: those that the summary names."""
    found = list(re.finditer(_HEADING, text))
    if total is None or len(found) <= total:
        return found
    summary = text.rpartition(" short test summary info ")[2]
    listed: list[str] = re.findall(r"(?m)^(?:FAILED|ERROR) (.+?)(?: - .*)?$", summary)
    names = {name.partition("::")[2].replace("::", ".") for name in listed}
    stage = r"ERROR at (?:setup|teardown) of "
    named = [one for one in found if re.sub(stage, "", one[0]).strip("_ ") in names]
    return named or found[:1]


def _cut_summary(text: str, start: int = 0) -> str:
    """The runner's summary at the end of the text, searched from `start` on; else empty."""
    summary = re.compile(
        r"^(?:=+ (?:short test summary info|\d+ \w++.*) =+|-{20,}\nRan \d+ tests?\b.*)$", re.M
    )
    found = list(summary.finditer(text, start))
    named = [one for one in found if "short test summary" in one[0]]
    counts = list(_COUNTS.finditer(text, start))
    last = (named or found or counts)[-1:]
    return text[last[0].start() :].rstrip() if last else ""


UNPROVEN_LABEL: Final = ":unproven"


def render_opening(run: Run, selection: Selection, accounts: Sequence[Account]) -> str:
    proof = selection.evidence
    script = "" if proof.reproduction.is_committed else "the script alone: "
    lines = (
        ("Before", script + _describe_before(proof.reproduction)),
        ("After", script + _describe_after(proof.reproduction)),
        ("Suite", _describe_suite(proof.suite)),
        ("Choice", _describe_choice(run, selection, accounts)),
    )
    return "\n".join(f"- **{name}:** {text}" for name, text in lines)


def _describe_before(test: Reproduction) -> str:
    if test.before.passed:
        return "the test passes without the change."
    return f"{_error(test.before)}{_counts(test.before)}"


def _describe_after(test: Reproduction) -> str:
    match read_test_outcome(test.path, test.after):
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
    if seconds < 90:
        return pluralize(max(1, round(seconds)), "second")
    return f"{round(seconds / 60)} minutes"


def describe_test(selection: Selection) -> str:
    test = selection.evidence.reproduction
    if not selection.is_proven:
        return f"**Unproven.** {prose(selection.evidence.unproven, 1500)}"
    before, after = (result_words(test.path, run) for run in (test.before, test.after))
    if not test.after.passed:
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
    match read_test_outcome(path, run):
        case "passes":
            return "passes"
        case "fails":
            return "fails"
        case "not run":
            return f"was not run ({ending_words(run)})"


def _error(run: Execution) -> str:
    error = find_error(run.output)
    return code(error, 200) if error else ending_words(run)


def _counts(run: Execution) -> str:
    counts = find_counts(run.output)
    return f" ({prose(counts, 100)})" if counts else ""


def _describe_suite(suite: SuiteReport | None) -> str:
    if suite is None:
        return "not run; the reason is below."
    before, broken = len(suite.before.passed), len(suite.broken)
    words = f"**{broken:,} broken**" if broken else "none broken"
    verb = agree(before, "passes", "pass")
    after, more = f"{len(suite.passed_after):,} after", len(suite.passed_only_after)
    if more:
        after += f" (and {more:,} more that ran only then)"
    text = f"{before:,} of this repository's tests {verb} before, {after}; {words}"
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
        fails = not selection.evidence.reproduction.after.passed
        doubt = "; it does not pass the reproduction test" if fails else ""
        text = f"{which}. {prose(selection.evidence.why.rstrip('.'), 200)}{doubt}"
    else:
        text = f"{which}, {selection.confidence:.0%} likely to be right"
    if accounts:
        text += f", for ${sum(account.dollars for account in accounts):.2f}"
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


def unproven_title(title: str) -> str:
    return f"[unproven] {title}"


def unproven_section(selection: Selection, characters: int) -> str:
    """Why the edit is not proven, and the script with its two runs."""
    test = selection.evidence.reproduction
    return "\n\n".join(
        [
            "> [!WARNING]\n> **Unproven.** No test of this repository shows that this edit fixes "
            "the issue. Please check it with more care than usual.",
            prose(selection.evidence.unproven, 1500),
            details(
                "The script",
                script_block(test.text, characters, selection.evidence.votes.script_suffix),
            ),
            details("The script without the change", block(test.before.output, characters)),
            details("The script with the change", block(test.after.output, characters)),
        ]
    )
