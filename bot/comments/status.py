"""The status comment of an issue, one function a state. Untrusted values are made inert."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

from bot.comments.stop_reason import stop_reason
from bot.markdown import block, code, details, prose
from bot.storage.progress import Progress
from bot.types import Failure, Mode, QueuePosition, Run, StopReason, replace
from pipeline.codebase.text import pluralize
from pipeline.types import NoFix, NoFixReason

_LOG_CHARACTERS = 3000
LABEL_AGAIN = "add the label again"
NOTHING_SPENT = "I had spent nothing."
_NO_PYTHON = "I found no Python code here, and I can only fix Python."
NO_FIX_REASONS: tuple[NoFixReason, ...] = get_args(NoFixReason)

WithdrawalReason = Literal["trust", "disabled"]
"""Why a run that had started must end early."""


def status_marker(run_id: str) -> str:
    """Identifies the run's one status comment; invisible on GitHub."""
    return f"<!-- capuchin:status run={run_id} -->"


def pull_marker(run_id: str) -> str:
    """Identifies a run's pull request; invisible on GitHub."""
    return f"<!-- capuchin:run={run_id} -->"


def render_queued(run: Run, wait: QueuePosition) -> str:
    """The status comment of a run that waits for a free worker."""
    ahead = wait.position - 1
    turn = f"queued behind {pluralize(ahead, 'other run')}" if ahead else "next in the queue"
    return render_status(
        run,
        f"I will look into this, as @{run.asked_by} asked. The run is {turn}."
        + (
            f" I expect to start {_rough_time(wait.expected_seconds)}."
            if wait.expected_seconds is not None
            else ""
        ),
    )


def render_started(run: Run) -> str:
    """The status comment of a run that has just started."""
    return render_status(run, _work_sentence(run))


def render_progress(run: Run, progress: Progress) -> str:
    """The status comment while the run makes progress."""
    counts = " · ".join(
        f"{count} {name if count != 1 else name[:-1]}{text}"
        for count, name, text in (
            (progress.files, "files", " read"),
            (progress.tests, "tests", ""),
            (progress.edits, "edits", ""),
        )
        if count
    )
    text = "\n\n".join(filter(None, (progress.doing, counts)))
    return render_status(
        replace(run, dollars=max(run.dollars, progress.dollars)),
        f"{_work_sentence(run)}\n\n{text}",
    )


def render_waiting(run: Run, reason: Failure) -> str:
    """The status comment of a started run while a service that it needs is unavailable."""
    more = "I have saved my progress, and will retry and continue from there."
    return render_status(run, f"{_work_sentence(run)}\n\n{waiting_sentence(reason)} {more}")


def waiting_sentence(reason: Failure) -> str:
    """Which service a run waits for, as a sentence."""
    model, sandbox = "the language model", "the sandbox that runs the tests"
    what = {Failure.MODEL_UNAVAILABLE: model, Failure.SANDBOX_UNAVAILABLE: sandbox}
    return f"The run is waiting for {what.get(reason, 'GitHub')}, which is not responding."


def _work_sentence(run: Run) -> str:
    asked = f"as @{run.asked_by} asked."
    match run.mode:
        case Mode.PLAN:
            plan = "This is a dry run: I will not open a pull request."
            return f"I am looking into this, {asked} {plan}"
        case Mode.JUDGE:
            pulls = ", ".join(f"#{number}" for number in run.pulls)
            return f"I am comparing {pulls}, {asked} I will not push anything."
        case Mode.USE:
            return f"I am putting my edit number {run.candidate} into the pull request, {asked}"
        case _:
            return f"I am looking into this, {asked}"


def render_opened(run: Run, number: int, *, draft: bool) -> str:
    """The status comment once the pull request is open."""
    please = "It is a draft: please review" if draft else "Please review"
    return render_status(
        run,
        f"I opened #{number} with a test that fails without the change and passes with it. "
        f"{please} it before you merge.",
    )


def render_no_fix(run: Run, result: NoFix) -> str:
    """The status comment of a run that found no fix."""
    text = f"I did not find a fix that I am confident in: {no_fix_reason(result.reason)}"
    reasons = "\n".join(f"- {prose(sentence, 600)}" for sentence in result.details[:8])
    if reasons:
        text += f"\n\nWhat I found out:\n\n{reasons}"
    if result.suspects:
        paths = "\n".join(f"- {code(path)}" for path in result.suspects[:10])
        text += (
            f"\n\nMy edits changed these files, so the cause is probably in one of them:\n\n{paths}"
        )
    if result.script:
        script = block(result.script, 12_000, "python")
        text += f"\n\n{details('A script that fails on the current code', script)}"
    return render_status(run, text)


def render_not_judged(run: Run) -> str:
    """The status comment when pull requests cannot be compared because no code can be run."""
    return render_status(run, f"I cannot compare them: {no_fix_reason('no source files')}")


def render_failed(run: Run, failure: Failure, detail: str = "") -> str:
    """The status comment of a failed run; `detail` is `Run.detail`."""
    return render_status(run, f"I could not work on this: {failure_reason(failure, detail)}")


def render_withdrawn(run: Run, why: WithdrawalReason) -> str:
    """The status comment of a run that lost its permission to continue."""
    because = {
        "trust": f"@{run.asked_by} no longer has permission to start me",
        "disabled": "I have been disabled in this repository",
    }
    return render_status(run, f"I stopped working on this because {because[why]}.")


def render_stopped(run: Run) -> str:
    """The status comment of a run that somebody stopped, with what it spent."""
    stop = run.stop
    assert stop is not None
    again = LABEL_AGAIN
    if stop.why is StopReason.DISABLED:
        again = "remove that label and ask again"
    spent = f"I had spent ${run.dollars:.2f} at list prices." if run.dollars else NOTHING_SPENT
    return render_status(
        replace(run, dollars=0.0),
        f"I stopped {stop_reason(stop)}. {spent} To restart, {again}.",
    )


def render_late_stop(run: Run, number: int) -> str:
    """The status comment when the pull request was opened before the stop request arrived."""
    return render_status(
        run,
        f"I had already opened #{number} when the stop request arrived. Close it if you do not "
        "want it; I will not change it.",
    )


def _invalid_config(detail: str) -> str:
    """`detail` is the problem."""
    where = f": {prose(detail, 600)}" if detail else "."
    return f"my configuration file is not valid{where}\n\nCorrect it, then {LABEL_AGAIN}."


def _install_failure(detail: str) -> str:
    """`detail` as `bot.failures.environment_detail` makes it."""
    command, sentence, log = [*detail.split("\n", 2), "", "", ""][:3]
    step = f" {code(command)} failed." if command else ""
    why = f" {prose(sentence, 1000)}" if sentence else ""
    text = (
        f"the repository could not be installed.{step}{why}\n\nIf it installs for you, describe "
        f"how in `.github/capuchin.yml`, then {LABEL_AGAIN}."
    )
    if log.strip():
        text += "\n\n" + details("The end of the log", block(log, _LOG_CHARACTERS))
    return text


_OPERATOR = "The operator of this bot"
_FAILURE_REASONS: Final[Mapping[Failure, str | Callable[[str], str]]] = {
    Failure.ISSUE_GONE: "the issue is no longer in this repository.",
    Failure.ISSUE_CLOSED: f"the issue is closed. To have it fixed, reopen it and {LABEL_AGAIN}.",
    Failure.REPOSITORY_GONE: (
        "the repository, or the commit that I started from, no longer exists. "
        f"If the repository has moved, {LABEL_AGAIN}."
    ),
    Failure.REPOSITORY_EMPTY: (
        f"the repository has no commits yet. Push some code, then {LABEL_AGAIN}."
    ),
    Failure.CONFIG_INVALID: _invalid_config,
    Failure.NOT_PYTHON: _NO_PYTHON,
    Failure.ENVIRONMENT: _install_failure,
    Failure.MODEL_UNAVAILABLE: (
        f"the language model did not respond for a long time. Please {LABEL_AGAIN} later."
    ),
    Failure.MODEL_MISCONFIGURED: (
        "the language model rejected the key, name or address that I am configured with. "
        f"{_OPERATOR} has to correct it."
    ),
    Failure.MODEL_REFUSED: (
        "the language model declined to work on this issue. It needs a person."
    ),
    Failure.SANDBOX_UNAVAILABLE: (
        "the sandbox that runs the tests was unavailable for a long time. "
        f"Please {LABEL_AGAIN} later."
    ),
    Failure.GITHUB_UNAVAILABLE: (
        f"GitHub did not respond for a long time. Please {LABEL_AGAIN} later."
    ),
    Failure.PUBLISH_REFUSED: (
        "I found a fix, but this repository's rules did not let me open a pull request for it. "
        f"Allow this App to push branches named `capuchin/…`, then {LABEL_AGAIN}."
    ),
    Failure.NO_PROGRESS: (
        "I was interrupted repeatedly and made no progress. "
        f"{_OPERATOR} can find the reason in its log."
    ),
    Failure.INTERNAL: (
        f"I hit a bug of my own. {_OPERATOR} can find it in the log, under the run's id."
    ),
}
"""A sentence, or what makes one of `Run.detail`."""

_NO_FIX_REASONS: Final[Mapping[NoFixReason, str]] = {
    "empty repository": "the repository has no files. Push some code, then {again}.",
    "no source files": _NO_PYTHON,
    "no relevant files": (
        "no file in this repository seems related to it. "
        "Name the function or file in the issue, then {again}."
    ),
    "no reproduction": (
        "I could not write a test that fails because of it. Add a short script that shows the "
        "problem, what you expected and what happened, then {again}."
    ),
    "no edit": (
        "none of the edits that I wrote could be applied. Add more detail to the issue, "
        "then {again}."
    ),
    "no edit passes its test": (
        "I could write a failing test, but none of my edits made it pass. "
        "Add a hint about the cause, then {again}."
    ),
    "edits break tests": (
        "every edit that fixed it broke tests of this repository that pass today. "
        "If one of those tests is wrong, say so in the issue, then {again}."
    ),
    "reproduction not confirmed": (
        "the test, once written as a file of this repository, did not fail before the edit and "
        "pass after it. Add an example as a test to the issue, then {again}."
    ),
    "not sure enough": (
        "my best edit is too likely to be wrong. To see such edits, lower `confidence` in "
        "`.github/capuchin.yml`, then {again}."
    ),
    "out of budget": (
        "the run reached a spending limit before I was sure. Raise `budget` in "
        "`.github/capuchin.yml`, or wait until the daily limit resets (00:00 UTC), then {again}."
    ),
}


def failure_reason(failure: Failure, detail: str = "") -> str:
    """Why the run failed, and what to do next.

    `detail` is `Run.detail` for ENVIRONMENT, the problem for CONFIG_INVALID, and unused otherwise.
    """
    reason = _FAILURE_REASONS[failure]
    return reason if isinstance(reason, str) else reason(detail)


def no_fix_reason(reason: NoFixReason, again: str = LABEL_AGAIN) -> str:
    """Why there is no fix, and what would help; `again` says how to start another run."""
    return _NO_FIX_REASONS[reason].format(again=again)


def _rough_time(seconds: float) -> str:
    """A time from now, as roughly as it is known."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return "within two minutes"
    if minutes < 90:
        return f"in about {minutes} minutes"
    return f"in about {round(minutes / 60)} hours"


def render_status(run: Run, text: str) -> str:
    """The status comment with `text`, then the run's id, cost, page and marker."""
    spent = f" · ${run.dollars:.2f} at list prices" if run.dollars else ""
    page = f" · [run page]({run.page_url})" if run.page_url else ""
    unread = f" · {run.omissions}" if run.omissions else ""
    return f"{text}\n\n<sub>Run `{run.id}`{spent}{page}{unread}</sub>\n{status_marker(run.id)}\n"
