"""Comments and check runs on our own pull requests. Untrusted values are made inert."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from bot.comments.failures import failure_reason, stop_reason
from bot.comments.status import tell_spent
from bot.comments.unpublished import fold_edit
from bot.data.failure import SENTENCES, Failure, FailureFacts
from bot.data.run import Run
from bot.safe_text import block, code, details, prose
from pipeline.data.suite_reports import TestOutcome
from pipeline.data.types import CommitSha
from pipeline.reproduction.red_green import show_command
from pipeline.workflows.verify import Verification
from prompts.text import pluralize
from sandbox.program import Ending, Execution

CHECK_NAME = "Capuchin: reproduction test"


class Note(StrEnum):
    """Comments on our own pull requests, each posted once."""

    TRIED = (
        "I tried, but found no edit that does this and passes the reproduction test{why}. The "
        "branch is unchanged; this needs a person."
    )
    OUT_OF_MONEY = (
        "I reached the spending limit for one run, so the branch is unchanged. Raise `budget.run` "
        "in `.github/capuchin.yml`, then write `/{name} fix` and what I should do."
    )
    PAUSED = (
        "The daily spending limit {whose} is reached. I will respond to the comments here "
        "tomorrow (00:00 UTC)."
    )
    HANDED_OVER = (
        "Somebody else has pushed to this branch, so it is yours now: I will not push to it or "
        "respond to reviews any more."
    )
    REBASED = (
        "The base branch had changed the same lines, so I rewrote the change on top of it "
        "({head}). The test fails there without the change and passes with it."
    )
    CONFLICT = (
        "This conflicts with {branch}: both changed the same lines, and I could not rewrite the "
        "change so that the test passes. Please resolve the conflict or close this pull request."
    )
    NO_CHECKS = (
        "I marked this as ready for review because its reproduction test passes. No other check "
        "ran on it: this repository has no CI that reports here."
    )
    WAITS_FOR_CHECKS = (
        "I keep this a draft until its checks pass, and have waited for an hour for {names}. If "
        "that is no check of the change, name it under `draft:` in `.github/capuchin.yml`, or mark "
        "this as ready yourself."
    )
    ISSUE_CLOSED = (
        "#{issue} is closed, so this pull request is no longer needed and I have closed it. "
        "Thank you for looking at it."
    )
    CLOSED_BY_US = (
        "#{pull} is merged into {branch}. GitHub closes issues for the default branch alone, so I "
        "have closed this one."
    )
    REPLACED = (
        "As requested, I started again: #{new} replaces this pull request, so I have closed it."
    )
    STALE = (
        "This had no activity for {days}, so I have closed it. If you still want it, reopen it, or "
        "add the label to the issue again."
    )


def describe_checking(test: str, times: int) -> tuple[str, str]:
    count = pluralize(times, "time")
    return (
        "Running the reproduction test",
        f"I am running {_test_name(test)} {count} without and {count} with the change, each time "
        "in a fresh sandbox without network.",
    )


def _test_name(path: str) -> str:
    return code(path) if path else "the script that reproduces the issue"


INCOMPLETE: Final = (
    "Not finished",
    "The test did not finish on this commit: the branch has moved, or a service that the test "
    "needs did not respond. Use the button beside this check to run it again.",
)
"""The title and text of a check run that started and did not finish."""
NO_TEST: Final = (
    "No reproduction test",
    "The edit in this pull request was taken without the reproduction test, which it does not "
    "pass. There is nothing that I could run to show that the issue is fixed.",
)


def check_title(found: Verification) -> str:
    if found.verdict == "shown":
        times = len(found.before)
        which = "" if found.path else "The script: "
        return f"{which}Fails before, passes after ({times} of {pluralize(times, 'run')})"
    return SENTENCES["verification"][found.verdict]["sentence"]


def check_summary(found: Verification, base: CommitSha, branch: str) -> str:
    times = pluralize(len(found.before), "time"), pluralize(len(found.after), "time")
    text = (
        f"I ran {_test_name(found.path)} {times[0]} without the change (on {code(branch, 100)} at "
        f"{code(base[:7])}) and {times[1]} with it, each time in a fresh sandbox without "
        "network.\n\n"
        f"| | passed | failed | not run |\n|---|--:|--:|--:|\n"
        f"| without the change | {_pass_fail_cells(found.outcomes_before)} |\n"
        f"| with the change | {_pass_fail_cells(found.outcomes_after)} |"
    )
    return (
        text
        if found.verdict == "shown"
        else f"{text}\n\n{SENTENCES['verification'][found.verdict]['advice']}"
    )


def check_text(found: Verification) -> str:
    """Both logs: of several runs, the first with a different result, else the first."""
    return (
        f"Command: {code(show_command(found.command), 500)}\n\n"
        f"### Without the change\n\n{_render_log(found.before)}\n\n"
        f"### With the change\n\n{_render_log(found.after)}\n"
    )


def describe_conflict(branch: str) -> tuple[str, str]:
    return (
        "Conflicts with the base branch",
        f"The change conflicts with {code(branch, 100)}: both changed the same lines. "
        "I could not run the test.",
    )


_UNCHANGED: Final = "I changed nothing on this branch."


def review_answer(answers: Sequence[tuple[str, str]], head: str) -> str:
    """To reviewers: what was changed, or why nothing was. `head` is empty if nothing was pushed.

    `answers` holds (login, untrusted text); answers to several people are labelled with the login.
    Without a change they are quoted: they may speak of one.
    """
    texts = [(by, prose(text, 2000)) for by, text in answers]
    if not head:
        texts = [(by, "\n".join(f"> {one}" for one in text.split("\n"))) for by, text in texts]
    if len({text for _, text in texts}) == 1:
        only = texts[0][1]
        return f"Done in {head}. {only}" if head else f"{_UNCHANGED} The model says:\n\n{only}"
    each = [f"@{by}: {text}" if head else f"To @{by}:\n\n{text}" for by, text in texts]
    first = f"Done in {head}." if head else f"{_UNCHANGED} The model says:"
    return "\n\n".join([first, *each])


def outsiders_note(untrusted: int) -> str:
    """How many comments on the pull request were not read; empty if none were skipped."""
    if not untrusted:
        return ""
    comments = pluralize(untrusted, "comment")
    return f"<sub>Not read: {comments} by people who cannot push to this repository.</sub>"


def failure_note(failure: Failure, facts: FailureFacts, edit: str = "") -> str:
    """When a follow-up failed; `edit` is the diff that GitHub did not take."""
    text = f"I could not follow up on this: {failure_reason(failure, facts)}"
    if edit:
        text += f"\n\nAsk again once that is done.\n\n{fold_edit(edit)}"
    return text


def stop_note(run: Run) -> str:
    why = stop_reason(run.stop) if run.stop else "as requested"
    return f"I stopped {why}. {tell_spent(run)}"


def _pass_fail_cells(outcomes: Sequence[TestOutcome]) -> str:
    return " | ".join(str(outcomes.count(one)) for one in ("passes", "fails", "not run"))


def _render_log(runs: Sequence[Execution]) -> str:
    ends = [run.passed for run in runs]
    odd = min(range(len(runs)), key=lambda i: ends.count(ends[i]))
    run = runs[odd]
    shown = block(run.output, 28_000)  # both logs must fit into a check run
    killed = run.ending is not Ending.EXIT
    end = f"killed ({run.ending.value})" if killed else f"exit code {run.exit_code}"
    head = f"Run {odd + 1} of {len(runs)}: {end} after {run.seconds:.1f} s."
    return f"{head}\n\n{details('Output', shown)}"
