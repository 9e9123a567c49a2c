"""Comments and check runs on our own pull requests. Untrusted values are made inert."""

from __future__ import annotations

from collections.abc import Sequence

from bot.comments.failures import failure_reason, stop_reason
from bot.comments.status import NOTHING_SPENT
from bot.comments.unpublished import fold_edit
from bot.data.run import Failure, Run
from bot.safe_text import block, code, details, prose
from pipeline.codebase.text import pluralize
from pipeline.data.suite_reports import read_test_outcome
from pipeline.data.types import CommitSha
from pipeline.reproduction.red_green import show_command
from pipeline.run_errors import Ceiling
from pipeline.workflows.verify import Verification, VerificationVerdict
from sandbox.program import Ending, Execution

CHECK_NAME = "Capuchin: reproduction test"


def note_marker(kind: str, key: str) -> str:
    """Identifies a comment that is posted once; invisible on GitHub."""
    return f"<!-- capuchin:{kind} {key} -->"


def answer_marker(remark_id: str) -> str:
    return f"<!-- capuchin:answer to={remark_id} -->"


def describe_checking(test: str, times: int) -> tuple[str, str]:
    count = pluralize(times, "time")
    return (
        "Running the reproduction test",
        f"I am running {_test_name(test)} {count} without and {count} with the change, each time "
        "in a fresh sandbox without network.",
    )


def _test_name(path: str) -> str:
    return code(path) if path else "the script that reproduces the issue"


def describe_incomplete() -> tuple[str, str]:
    return (
        "Not finished",
        "The test did not finish on this commit: the branch has moved, or a service that the test "
        "needs did not respond. Use the button beside this check to run it again.",
    )


def check_title(found: Verification) -> str:
    times = len(found.before)
    titles: dict[VerificationVerdict, str] = {
        "shown": (
            f"{'' if found.path else 'The script: '}Fails before, passes after "
            f"({times} of {pluralize(times, 'run')})"
        ),
        "flaky": "Flaky: the test does not always give the same result",
        "passes without": "No evidence: the test passes without the change",
        "fails with": "The test does not pass with the change",
        "not run": "The test was not run",
    }
    return titles[found.verdict]


def check_summary(found: Verification, base: CommitSha, branch: str) -> str:
    times = pluralize(len(found.before), "time"), pluralize(len(found.after), "time")
    text = (
        f"I ran {_test_name(found.path)} {times[0]} without the change (on {code(branch, 100)} at "
        f"{code(base[:7])}) and {times[1]} with it, each time in a fresh sandbox without "
        "network.\n\n"
        f"| | passed | failed | not run |\n|---|--:|--:|--:|\n"
        f"| without the change | {_pass_fail_cells(found.before)} |\n"
        f"| with the change | {_pass_fail_cells(found.after)} |"
    )
    hints: dict[VerificationVerdict, str] = {
        "shown": "",
        "flaky": (
            "This test is flaky, so I do not count it as evidence. Please remove what makes its "
            "result vary (time, order, randomness)."
        ),
        "passes without": "The base branch may already contain a fix for the issue.",
        "fails with": "The log below shows why. Please review the change again.",
        "not run": (
            "Its runner reached no verdict on the test, so this says nothing about the change. The "
            "log below shows why."
        ),
    }
    hint = hints[found.verdict]
    return f"{text}\n\n{hint}" if hint else text


def check_text(found: Verification) -> str:
    """Both logs: of several runs, the first with a different result, else the first."""
    return (
        f"Command: {code(show_command(found.command), 500)}\n\n"
        f"### Without the change\n\n{_render_log(found.before)}\n\n"
        f"### With the change\n\n{_render_log(found.after)}\n"
    )


def describe_no_test() -> tuple[str, str]:
    return (
        "No reproduction test",
        "The edit in this pull request was taken without the reproduction test, which it does not "
        "pass. There is nothing that I could run to show that the issue is fixed.",
    )


def describe_conflict(branch: str) -> tuple[str, str]:
    return (
        "Conflicts with the base branch",
        f"The change conflicts with {code(branch, 100)}: both changed the same lines. "
        "I could not run the test.",
    )


def review_answer(answers: Sequence[tuple[str, str]], head: str, markers: Sequence[str]) -> str:
    """To reviewers: what was changed, or why nothing was. `head` is empty if nothing was pushed.

    `answers` holds (login, untrusted text); answers to several people are labelled with the login.
    """
    done = f"Done in {head}." if head else "I changed nothing."
    if len({text for _, text in answers}) == 1:
        return _with_markers(f"{done} {prose(answers[0][1], 2000)}", markers)
    each = [f"@{by}: {prose(text, 2000)}" for by, text in answers]
    return _with_markers("\n\n".join([done, *each]), markers)


def failure_answer(markers: Sequence[str], name: str, spent: bool) -> str:
    text = (
        "I reached the spending limit for one run, so the branch is unchanged. Raise `budget.run` "
        f"in `.github/capuchin.yml`, then write `/{name} fix` and what I should do."
        if spent
        else "I tried, but found no edit that does this and passes the reproduction test. "
        "The branch is unchanged; this needs a person."
    )
    return _with_markers(text, markers)


def outsiders_note(untrusted: int) -> str:
    """How many comments on the pull request were not read; empty if none were skipped."""
    if not untrusted:
        return ""
    comments = pluralize(untrusted, "comment")
    return f"<sub>Not read: {comments} by people who cannot push to this repository.</sub>"


def budget_pause_note(ceiling: Ceiling, day: str) -> str:
    whose = "of this repository" if ceiling == "repository" else "of this bot's operator"
    return (
        f"The daily spending limit {whose} is reached. I will respond to the comments here "
        f"tomorrow (00:00 UTC).\n\n{note_marker('paused', day)}\n"
    )


def handover_note(number: int) -> str:
    return (
        "Somebody else has pushed to this branch, so it is yours now: I will not push to it or "
        f"respond to reviews any more.\n\n{note_marker('handed-over', str(number))}\n"
    )


def rebase_note(head: str, marker: str) -> str:
    return (
        f"The base branch had changed the same lines, so I rewrote the change on top of it "
        f"({head}). The test fails there without the change and passes with it.\n\n{marker}\n"
    )


def conflict_note(branch: str, marker: str) -> str:
    return (
        f"This conflicts with {code(branch, 100)}: both changed the same lines, and I could not "
        "rewrite the change so that the test passes. Please resolve the conflict or close this "
        f"pull request.\n\n{marker}\n"
    )


def no_checks_note(marker: str) -> str:
    return (
        "I marked this as ready for review because its reproduction test passes. No other check "
        f"ran on it: this repository has no CI that reports here.\n\n{marker}\n"
    )


def issue_closed_note(issue: int, number: int) -> str:
    return (
        f"#{issue} is closed, so this pull request is no longer needed and I have closed it. "
        f"Thank you for looking at it.\n\n{note_marker('closed', str(number))}\n"
    )


def replacement_note(number: int, new: int) -> str:
    return (
        f"As requested, I started again: #{new} replaces this pull request, so I have closed it."
        f"\n\n{note_marker('closed', str(number))}\n"
    )


def stale_note(days: int, number: int) -> str:
    return (
        f"This had no activity for {pluralize(days, 'day')}, so I have closed it. If you still "
        f"want it, reopen it, or add the label to the issue again.\n\n"
        f"{note_marker('closed', str(number))}\n"
    )


def failure_note(failure: Failure, detail: str, marker: str, *, edit: str = "") -> str:
    """When a follow-up failed; `edit` is the diff that GitHub did not take."""
    text = f"I could not follow up on this: {failure_reason(failure, detail)}"
    if edit:
        text += f"\n\nAsk again once that is done.\n\n{fold_edit(edit)}"
    return f"{text}\n\n{marker}\n"


def stop_note(run: Run, marker: str) -> str:
    spent = f"I had spent ${run.dollars:.2f} at list prices." if run.dollars else NOTHING_SPENT
    why = stop_reason(run.stop) if run.stop else "as requested"
    return f"I stopped {why}. {spent}\n\n{marker}\n"


def _with_markers(text: str, markers: Sequence[str]) -> str:
    return f"{text}\n\n" + "\n".join(markers) + "\n"


def _pass_fail_cells(runs: Sequence[Execution]) -> str:
    outcomes = [read_test_outcome(run) for run in runs]
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
