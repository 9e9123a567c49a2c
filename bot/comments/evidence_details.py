"""The repository's own tests, without and with the edit."""

from __future__ import annotations

from collections.abc import Sequence

from bot.comments.evidence.test_output import drop_progress, shorten_failures
from bot.markdown import block, code, details, prose
from pipeline.codebase.text import agree, pluralize
from pipeline.reasons import describe_cut, describe_failing
from pipeline.types import Evidence, SuiteReport, SuiteRun

MAX_STILL_FAILING = 5


def render_suite(evidence: Evidence, characters: int) -> str:
    """The results as a table, what they mean, and the output folded."""
    suite = evidence.suite
    if suite is None:
        problem = evidence.suite_problem
        if problem:
            return (
                "This repository's own tests tell nothing about the change: I could not run them. "
                + prose(problem, 500)
            )
        return "None of this repository's own tests has to do with the change."
    before, after = suite.before, suite.after
    table = _suite_table(before, after)
    text = f"The repository's own tests, {code(' '.join(suite.command), 300)}:\n\n{table}"
    cut = describe_cut(suite)
    if ran := " ".join(
        filter(None, (_describe_chosen(suite), describe_failing(suite, "the change"), cut))
    ):
        text += f"\n\n{ran}"
    text += _render_failing(suite)
    if suite.broken:
        text += (
            f"\n\nThese pass without the change but not with it:\n\n{_render_names(suite.broken)}"
        )
    if before.offline:
        many = pluralize(len(before.offline), "further test")
        need = agree(len(before.offline), "needs", "need")
        text += f"\n\n{many} {need} a network, a display or a service, which the sandbox lacks: "
        text += "no evidence."
    if suite.flaky:
        text += "\n\nI left these out because they do not always pass without the change:\n\n"
        text += _render_names(suite.flaky)
    return f"{text}\n\n{_render_output(suite, characters)}"


def _render_failing(suite: SuiteReport) -> str:
    """The tests that fail without and with the change; first those that fail otherwise."""
    otherwise, text = suite.failed_otherwise, ""
    if otherwise:
        text += "\n\nThese fail with and without the change, but not with the same error:\n\n"
        shown = otherwise[:MAX_STILL_FAILING]
        text += _render_names(
            [f"{test}: {before} without it, {after} with it" for test, before, after in shown]
        )
    both = set(suite.before.failed) & set(suite.after.failed)
    if still := sorted(both.difference(one.test for one in otherwise)):
        named = _render_names(still[:MAX_STILL_FAILING])
        text += f"\n\nThese fail with and without the change:\n\n{named}"
        more = len(still) - MAX_STILL_FAILING
        text += f"\n\nAnd {more:,} more." if more > 0 else ""
    return text


def _render_output(suite: SuiteReport, characters: int) -> str:
    run = suite.after
    log = block(shorten_failures(drop_progress(run.execution.output)), characters)
    if run.cut:
        log += f"\n\n{describe_cut(suite)}"
    title = "Output with the change"
    if suite.near:
        title += f" (the {suite.near:,} nearest tests had run before and are not in it)"
    return details(title, log)


def _describe_chosen(suite: SuiteReport) -> str:
    """Which tests ran, in a sentence; empty if all did."""
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


def _suite_table(before: SuiteRun, after: SuiteRun) -> str:
    """Both runs in numbers; the columns of errors and skipped tests only where there are any."""
    names, counts = ["passed", "failed"], [_count_outcomes(run) for run in (before, after)]
    if before.errors or after.errors:
        names.append("error")
    if before.skipped or after.skipped:
        names.append("skipped or expected to fail")
    rows = ["| | " + " | ".join(names) + " |", "|---" + "|--:" * len(names) + "|"]
    for title, count in zip(("before", "after"), counts, strict=True):
        rows.append(f"| {title} | " + " | ".join(f"{count[name]}" for name in names) + " |")
    return "\n".join(rows)


def _count_outcomes(run: SuiteRun) -> dict[str, int]:
    return {
        "passed": len(run.passed),
        "failed": len(run.failed) - len(run.errors),
        "error": len(run.errors),
        "skipped or expected to fail": len(run.skipped),
    }


def _render_names(names: Sequence[str]) -> str:
    return block("\n".join(names), 2000)
