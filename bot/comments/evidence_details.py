"""More evidence and its limits: suite, further scripts, and what it does not show."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from bot.comments.render import render
from bot.safe_text import block, code, details, prose, script_block
from pipeline.codebase.unified_diff import list_paths, parse_diff
from pipeline.data.suite_reports import SKIPPED, FurtherScript, SuiteReport
from pipeline.data.types import Candidate, Evidence, Selection, VoteTable
from pipeline.edits.suspicious import find_suspicious
from pipeline.languages.conventions import is_test
from pipeline.languages.registry import shorten_failures
from pipeline.reasons import BlockedHosts, describe_cut, describe_failing, find_blocked_in_selection
from pipeline.selection.explain import describe_end, describe_ends
from pipeline.selection.verdict import name_edits
from pipeline.selection.voting import reproducing_tests
from prompts.text import agree, join_names, pluralize


def render_suite(evidence: Evidence, characters: int) -> str:
    suite = evidence.suite
    if suite is None:
        problem = evidence.suite_problem
        if problem:
            return (
                "I could not run this repository's own tests, so they say nothing about the "
                f"change. {prose(problem, 500)}"
            )
        return "None of this repository's own tests is related to the change."
    runs = {"before": suite.before, "after": suite.after}
    counts = {
        title: {
            "passed": len(run.passed),
            "failed": len(run.failed) - len(run.errors),
            "error": len(run.errors),
            SKIPPED: len(run.skipped),
        }
        for title, run in runs.items()
    }
    cut = describe_cut(suite)
    ran = (_describe_chosen(suite), describe_failing(suite, "the change"), cut)
    otherwise = suite.failed_otherwise
    both = set(suite.before.failed) & set(suite.after.failed)
    return render(
        "suite",
        suite=suite,
        # Errors and skipped tests only where there are any.
        columns=[
            name
            for name in counts["before"]
            if name in ("passed", "failed") or counts["before"][name] or counts["after"][name]
        ],
        counts=counts,
        sentences=[sentence for sentence in ran if sentence],
        otherwise=[
            f"{test}: {before} without it, {after} with it" for test, before, after in otherwise[:5]
        ],
        still=sorted(both.difference(one.test for one in otherwise)),
        most_named=5,
        output=shorten_failures(suite.after.execution.output),
        characters=characters,
        cut=cut,
    )


def _describe_chosen(suite: SuiteReport) -> str:
    """A sentence on which tests ran; empty if all did."""
    if not suite.chosen:
        return ""
    count = len(suite.before.passed)
    if not suite.whole or suite.before.cut:
        verb = agree(count, "passes", "pass")
        return f"I ran {count:,} that {verb} without the change: {suite.chosen}."
    verb = agree(suite.whole, "passes", "pass")
    known = f"{pluralize(suite.whole, 'test')} that {verb} without the change"
    if count == suite.whole > 1:
        return f"All {known} were run with it: {suite.chosen}."
    return f"Of {known}, I ran {count:,} with it: {suite.chosen}."


def render_limits(selection: Selection, absent: Sequence[str] = ()) -> str:
    """A list; quoted files, hosts and reasons are made inert. `absent`: see `pull_body`."""
    text = ["A passing test shows that the reported case is fixed, not that nothing else changed."]
    if not selection.candidate.source:
        brought = selection.evidence.reproduction.rung == "the edit's own tests"
        wrote = "One reply brought" if brought else "The same kind of model wrote"
        text[0] += f" {wrote} the test and the edit."
    if selection.evidence.cut_short:
        text.append(selection.evidence.cut_short)
    text += [
        *suspicious_sentences(selection.candidate.patch.diff),
        _old_tests_sentence(selection.candidate.patch.diff),
        _ran_sentence(selection.evidence.suite),
        _otherwise_sentence(selection),
        _unseen_sentence(selection),
        _changelog_sentence(selection),
        _network_sentence(find_blocked_in_selection(selection)),
        _absent_sentence(absent),
    ]
    return "\n".join(f"- {sentence}" for sentence in filter(None, text))


def suspicious_sentences(diff: str) -> list[str]:
    """What in an edit a person should look at."""
    return [f"The edit {prose(words, 300)}" for words in find_suspicious(diff)]


def _old_tests_sentence(diff: str) -> str:
    """On lines of existing tests that an edit changes or removes, and so counts as passing; empty
    if it only adds to tests or moves lines."""
    found: list[str] = []
    for file in parse_diff(diff):
        lines = [(marker, text.strip()) for hunk in file.hunks for marker, text in hunk.lines]
        added = {"", *(text for marker, text in lines if marker == "+")}
        count = sum(marker == "-" and text not in added for marker, text in lines)
        if count and file.old and is_test(file.old):
            found.append(f"{pluralize(count, 'line')} of {code(file.old, 100)}")
    if not found:
        return ""
    return f"The edit changes or removes {join_names(found, 5)}: check that the issue asks for it."


def _absent_sentence(absent: Sequence[str]) -> str:
    """On submodules and files of Git LFS that were not fetched; empty without any."""
    if not absent:
        return ""
    names = join_names([code(path, 100) for path in absent], 5)
    return f"The sandbox lacked submodules or files of Git LFS that I could not fetch: {names}."


def _ran_sentence(suite: SuiteReport | None) -> str:
    """On how many of the repository's tests ran with the edit; empty if all did."""
    if suite is None:
        return "I ran none of the repository's own tests."
    if suite.before.cut or suite.after.cut:
        return "A time limit let only a part of the repository's tests run."
    count = len(suite.before.passed)
    if count < suite.whole:
        return (
            f"I ran {count:,} of the repository's {pluralize(suite.whole, 'test')} with the change."
        )
    near = suite.is_near and suite.chosen
    return f"I ran {count:,} of the repository's tests with the change, not all." if near else ""


def _otherwise_sentence(selection: Selection) -> str:
    """On tests that fail with and without the edit, but differently; empty if none does."""
    suite = selection.evidence.suite
    found = suite.failed_otherwise if suite else ()
    if not found:
        return ""
    if len(found) == 1:
        [(test, before, after)] = found
        which, it = code(test, 300), "it"
        fail = f"fails without the edit ({code(before)}) and with it ({code(after)})"
    else:
        which, it = f"{len(found):,} tests", "them"
        fail = "fail without the edit and with it"
    see = f"Check whether the edit makes {it} obsolete."
    return f"{which} {fail}, but not with the same error. {see}"


def _unseen_sentence(selection: Selection) -> str:
    """On files that our model did not see for lack of room; empty if it saw all."""
    unseen, candidate = selection.evidence.context.without_room, selection.candidate
    if not unseen or candidate.source:
        return ""
    files = f"{pluralize(len(unseen), 'file')} that may be relevant, for lack of room"
    if candidate.machine == "explore":
        return (
            f"The model that wrote the edit was not given {files}. It ran "
            "commands in the repository, with which it could read any file."
        )
    return f"The model that wrote the edit did not see {files}."


def _changelog_sentence(selection: Selection) -> str:
    """On the missing changelog entry, if the model was told to write none; else empty."""
    folder, candidate = selection.evidence.context.numbered_entries, selection.candidate
    paths = list_paths(candidate.patch.diff)
    if not folder or candidate.source or any(path.startswith(f"{folder}/") for path in paths):
        return ""
    return (
        f"The changelog lacks an entry: those in {code(folder)} are named by issue number, and "
        "this issue's number is not known."
    )


def _network_sentence(found: BlockedHosts) -> str:
    """On the hosts that tests tried to reach, according to their output; empty without any."""
    no_network = "the sandbox has no network. I cannot tell whether this affects their results."
    if found.hosts:
        named = ", ".join(code(host, 100) for host in found.hosts)
        more = f" and {found.more} more" if found.more else ""
        return f"According to their output, the tests could not reach {named}{more}: {no_network}"
    if found.nameless:
        return (
            "According to their output, the tests could not reach a host that the output does not "
            f"name: {no_network}"
        )
    return ""


def render_further(
    further: Sequence[FurtherScript], table: VoteTable, order: Sequence[int], characters: int
) -> str:
    """The first five scripts, folded and cut to `characters`. `order` ranks the edits from A."""
    named = zip(table.candidates, name_edits(table, order), strict=True)
    names = [code(name, 80) if candidate.source else name for candidate, name in named]
    parts: list[str] = []
    for number, script in enumerate(further[:5], 1):
        which = f" {number} of {len(further)}" if len(further) > 1 else ""
        shown = [
            f"On the original code it {describe_end(script.base)}.",
            script_block(script.text, characters, table.script_suffix),
        ]
        shown += _render_outputs(script, names, characters)
        text = "\n\n".join(shown)
        ends = "; ".join(describe_ends(script, names))
        elsewhere = "was written to reach the changed lines from elsewhere"
        what = elsewhere if script.after_choice else "tells edits apart"
        parts.append(details(f"Further script{which}, which {what}: {ends}", text))
    if len(further) > 5:
        parts.append(f"And {pluralize(len(further) - 5, 'further script')}.")
    return "\n\n".join(parts)


def render_scripts(
    table: VoteTable, chosen: Candidate, order: Sequence[int], characters: int
) -> str:
    """The first five scripts of the table, folded and cut to `characters`: those that show the
    issue and that the `chosen` edit fails come first, with its output."""
    at = next(c for c, one in enumerate(table.candidates) if one.patch == chosen.patch)
    shown = [test for test in reproducing_tests(table) if test not in table.flaky]
    failed = [test for test in shown if not table.runs[at][test].passed]
    every = [*failed, *(test for test in range(len(table.tests)) if test not in failed)]
    names = dict(enumerate(name_edits(table, order)))
    parts: list[str] = []
    for test in every[:5]:
        ran = FurtherScript(
            text=table.tests[test].text,
            base=table.base[test],
            candidates=tuple(table.distinct(range(len(table.candidates)))),
            runs=tuple(table.runs[c][test] for c in table.distinct(range(len(table.candidates)))),
        )
        checks = test == table.checklist
        what = ", which tries what was said of a complete fix before any edit" * checks
        title = f"Script {test + 1}{what}: on the unedited code it {describe_end(ran.base)}; "
        title += "; ".join(describe_ends(ran, names))
        text = script_block(ran.text, characters, table.script_suffix)
        if checks:
            text = "\n\n".join([text, *_render_outputs(ran, names, characters)])
        elif test in failed:
            output = block(table.runs[at][test].output, min(characters, 1500))
            text += f"\n\nWith the chosen edit it prints:\n\n{output}"
        title += ". It may ask for more than the issue" * (checks or test in failed)
        parts.append(details(title, text))
    if len(every) > 5:
        parts.append(f"And {pluralize(len(every) - 5, 'further script')}.")
    return "\n\n".join(parts)


def _render_outputs(
    script: FurtherScript, names: Sequence[str] | Mapping[int, str], characters: int
) -> list[str]:
    """Its output with an edit that passes (without any, if none does), and with one that does
    not."""
    runs = list(zip(script.candidates, script.runs, strict=True))
    first = (
        next(((c, run) for c, run in runs if run.passed is one), None) for one in (True, False)
    )
    found = [(names[c], run.output) for c, run in filter(None, first)]
    most = min(characters, 1500)
    if not any(run.passed for _, run in runs):  # lines that all print may say why
        found.insert(0, ("the original code", script.base.output))
    elif len(found) == 2:
        found = _leave_out_equal_lines(found, most)
    return [
        f"With {name} it prints:\n\n{block(text, most)}" for name, text in found if text.strip()
    ]


_MOST_COMPARED = 500
"""Lines of an output; the time grows with the square."""


def _leave_out_equal_lines(found: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Two outputs; if one has more than `most` characters, without the lines that both print in the
    same order."""
    lines = [text.split("\n") for _, text in found]
    longest = max(map(len, lines))
    if max(len(text) for _, text in found) <= most or longest > _MOST_COMPARED:
        return list(found)
    compared = SequenceMatcher(None, *lines, autojunk=False)
    shown: list[list[str]] = [[], []]
    for kind, *places in compared.get_opcodes():
        spans = (places[:2], places[2:])
        for parts, own, (first, last) in zip(shown, lines, spans, strict=True):
            left_out = f"[... {pluralize(last - first, 'line')} that both print ...]"
            short = kind == "equal" and last - first > 1
            parts += [left_out] if short else own[first:last]
    return [(name, "\n".join(parts)) for (name, _), parts in zip(found, shown, strict=True)]
