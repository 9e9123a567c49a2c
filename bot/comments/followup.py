"""Every sentence the bot says on its own pull requests. Untrusted values are made inert."""

from __future__ import annotations

from collections.abc import Sequence

from bot.comments.replies import quota_sentence, refusal_marker
from bot.comments.status import NOTHING_SPENT, failure_reason
from bot.comments.stop_reason import stop_reason
from bot.markdown import block, code, details, prose
from bot.types import Failure, QuotaLimit, Run
from pipeline.codebase.text import pluralize
from pipeline.errors import Ceiling
from pipeline.workflows.verify import Verification, VerificationVerdict
from sandbox.base import Ending, Execution

CHECK_NAME = "Capuchin: reproduction test"
LOG_CHARACTERS = 28_000
"""Of each side's log, so that both fit into a check run."""


def note_marker(kind: str, key: str) -> str:
    """What a remark that is made once is found by."""
    return f"<!-- capuchin:{kind} {key} -->"


def answer_marker(remark_id: str) -> str:
    """What the answer to one comment or review is found by."""
    return f"<!-- capuchin:answer to={remark_id} -->"


def checking_title() -> str:
    """Of the check run while the test is being run."""
    return "Running the reproduction test"


def checking_summary(test: str, times: int) -> str:
    """The check run's text while the test is being run."""
    return (
        f"I am running {code(test)} {pluralize(times, 'time')} on each side, without and with the "
        "change, each time in a fresh sandbox without network."
    )


def incomplete_title() -> str:
    """Of a check run that was begun and came to no end."""
    return "Not run to its end"


def incomplete_summary() -> str:
    """The branch has another head by now, or what the test needs did not answer."""
    return (
        "The test was not run to its end on this commit: the branch has moved on, or what it "
        "needs did not answer. The button beside this check runs it again."
    )


def check_title(found: Verification) -> str:
    """The check run's title."""
    times = len(found.before)
    titles: dict[VerificationVerdict, str] = {
        "shown": f"Fails before, passes after ({times} of {pluralize(times, 'run')})",
        "flaky": "Flaky: the test does not always end alike",
        "passes without": "Not shown: the test does not fail without the change",
        "fails with": "The test does not pass with the change",
    }
    return titles[found.verdict]


def check_summary(found: Verification, base: str, branch: str) -> str:
    """The check run's first paragraph, with what a maintainer may do."""
    text = (
        f"{code(found.path)}, run {pluralize(len(found.before), 'time')} on each side, each time "
        f"in a fresh sandbox without network. Without the change is {code(branch, 100)} at "
        f"{code(base[:7])}.\n\n"
        f"| | passed | failed |\n|---|--:|--:|\n"
        f"| without the change | {_pass_fail_cells(found.before)} |\n"
        f"| with the change | {_pass_fail_cells(found.after)} |"
    )
    hints: dict[VerificationVerdict, str] = {
        "shown": "",
        "flaky": (
            "A test that ends now so, now so proves nothing, so I do not count it as evidence. "
            "What makes it vary (time, order, chance) should be taken out of it."
        ),
        "passes without": "Perhaps the issue was fixed on the base branch meanwhile.",
        "fails with": "The log below shows why. Somebody has to look at the change again.",
    }
    hint = hints[found.verdict]
    return f"{text}\n\n{hint}" if hint else text


def check_text(found: Verification) -> str:
    """Both logs; of several runs the first that ended unlike the others, or else the first."""
    return (
        f"Command: {code(' '.join(found.command), 500)}\n\n"
        f"### Without the change\n\n{_render_log(found.before)}\n\n"
        f"### With the change\n\n{_render_log(found.after)}\n"
    )


def conflict_title() -> str:
    """Of the check run on a head that clashes with its base."""
    return "Clashes with the base branch"


def conflict_summary(branch: str) -> str:
    """Nothing could be run."""
    return (
        f"The change no longer fits {code(branch, 100)}: both touched the same lines. "
        "Nothing could be run."
    )


def review_commit_title() -> str:
    """The first line of the commit that follows a review."""
    return "Follow the review"


def review_answer(answers: Sequence[tuple[str, str]], head: str, markers: Sequence[str]) -> str:
    """To reviewers: what was done, or why nothing was. `head` is empty when nothing was pushed.

    `said` holds whom it is for and the words, which are untrusted; those of several people are told
    apart.
    """
    done = f"Done in {head}." if head else "I changed nothing."
    if len({text for _, text in answers}) == 1:
        return _with_markers(f"{done} {prose(answers[0][1], 2000)}", markers)
    each = [f"@{by}: {prose(text, 2000)}" for by, text in answers]
    return _with_markers("\n\n".join([done, *each]), markers)


def failure_answer(markers: Sequence[str], name: str, spent: bool) -> str:
    """To reviewers, when no edit came to pass the test, or money ran out first."""
    text = (
        "The limit for one run was spent before I was done, so the branch is as it was. Raise "
        f"`budget.run` in `.github/capuchin.yml`, then write `/{name} fix` and what is to be done."
        if spent
        else "I tried, but did not find an edit that does this and passes the reproduction test. "
        "The branch is as it was; a person has to."
    )
    return _with_markers(text, markers)


def outsiders_note(untrusted: int) -> str:
    """How much of what was said on the pull request was not read; empty for none."""
    if not untrusted:
        return ""
    comments = pluralize(untrusted, "comment")
    return f"<sub>Not read: {comments} by people who cannot push to this repository.</sub>"


def quota_refusal(login: str, limit: QuotaLimit) -> str:
    """To a reviewer who may be followed, but not so often; said once a day and person."""
    return (
        f"Thank you, @{login}. {quota_sentence(limit)} I follow this tomorrow.\n\n"
        f"{refusal_marker(login)}\n"
    )


def budget_pause_note(ceiling: Ceiling, day: str) -> str:
    """When a ceiling for the day is reached; said once a day."""
    whose = "for this repository" if ceiling == "repository" else "of whoever operates this bot"
    return (
        f"The limit {whose} for today is spent. I follow what was said here tomorrow (00:00 "
        f"UTC).\n\n{note_marker('paused', day)}\n"
    )


def handover_note(number: int) -> str:
    """Said once, when a person has pushed to the branch."""
    return (
        "Somebody else has pushed to this branch, so it is yours now: I push no more to it and "
        f"answer no more reviews.\n\n{note_marker('handed-over', str(number))}\n"
    )


def rebase_note(head: str, marker: str) -> str:
    """After a conflict was mended."""
    return (
        f"The base branch had changed in the same places, so I wrote the change anew upon it "
        f"({head}). The test fails there without the change and passes with it.\n\n{marker}\n"
    )


def conflict_note(branch: str, marker: str) -> str:
    """When a conflict could not be mended."""
    return (
        f"This no longer fits {code(branch, 100)}: both changed the same lines, and I did not "
        "manage to write the change anew so that the test passes. A person has to resolve it, or "
        f"close this.\n\n{marker}\n"
    )


def issue_closed_note(issue: int, number: int) -> str:
    """The last word when the issue was closed by other means."""
    return (
        f"#{issue} is closed, so this is not needed any more. Thank you for looking at it; I have "
        f"closed this.\n\n{note_marker('closed', str(number))}\n"
    )


def stale_note(days: int, number: int) -> str:
    """The last word on a pull request that nobody touched."""
    return (
        f"Nobody has touched this for {pluralize(days, 'day')}, so I have closed it. If it is still "
        f"wanted, reopen it, or put the label on the issue again.\n\n"
        f"{note_marker('closed', str(number))}\n"
    )


def failure_note(failure: Failure, detail: str, marker: str) -> str:
    """When the pull request could not be looked after."""
    return f"I could not follow up on this: {failure_reason(failure, detail)}\n\n{marker}\n"


def stop_note(run: Run, marker: str) -> str:
    """When somebody stopped what was being done on the pull request."""
    spent = f"I had spent ${run.dollars:.2f} at list prices." if run.dollars else NOTHING_SPENT
    why = stop_reason(run.stop) if run.stop else "as asked"
    return f"I stopped, {why}. {spent}\n\n{marker}\n"


def _with_markers(text: str, markers: Sequence[str]) -> str:
    return f"{text}\n\n" + "\n".join(markers) + "\n"


def _pass_fail_cells(runs: Sequence[Execution]) -> str:
    passed = sum(run.passed for run in runs)
    return f"{passed} | {len(runs) - passed}"


def _render_log(runs: Sequence[Execution]) -> str:
    ends = [run.passed for run in runs]
    odd = min(range(len(runs)), key=lambda i: ends.count(ends[i]))
    shown = block(runs[odd].output, LOG_CHARACTERS)
    ended = _exit_sentence(runs[odd])
    return f"Run {odd + 1} of {len(runs)}: {ended}.\n\n{details('Output', shown)}"


def _exit_sentence(run: Execution) -> str:
    if run.ending is not Ending.EXIT:
        return f"killed ({run.ending.value}) after {run.seconds:.1f} s"
    return f"exit code {run.exit_code} after {run.seconds:.1f} s"
