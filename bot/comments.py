"""Every sentence the bot says on an issue, one function each. Untrusted values are made inert."""

from __future__ import annotations

from typing import assert_never

from bot.markdown import code, prose
from bot.types import Failure, Run
from pipeline.types import NoFix, NoFixReason

LABEL_AGAIN = "put the label on again"


def status_marker(run_id: str) -> str:
    """What the run's one status comment is found by; shown to nobody."""
    return f"<!-- capuchin:status run={run_id} -->"


def refusal_marker(login: str) -> str:
    """What a refusal to one person is found by."""
    return (
        f"<!-- capuchin:refused login={''.join(c for c in login if c.isalnum() or c in '-_')} -->"
    )


def request_marker(run_id: str) -> str:
    """What a run's pull request is found by."""
    return f"<!-- capuchin:run={run_id} -->"


def started(run: Run) -> str:
    """The status comment as it is first written."""
    return _status(run, f"I am looking into this, as @{run.asked_by} asked.")


def working(run: Run, doing: str) -> str:
    """The status comment while work goes on; `doing` is one of our own sentences."""
    return _status(run, f"I am looking into this, as @{run.asked_by} asked.\n\n{doing}")


def opened(run: Run, number: int, *, draft: bool) -> str:
    """The status comment when the pull request is there."""
    please = "It is a draft: please review" if draft else "Please review"
    return _status(
        run,
        f"I opened #{number} with a test that fails without the change and passes with it. "
        f"{please} it before you merge.",
    )


def no_fix(run: Run, answer: NoFix) -> str:
    """The status comment after an honest no."""
    said = f"I did not find a fix that I can stand behind: {no_fix_reason(answer.reason)}"
    learnt = "\n".join(f"- {prose(sentence, 600)}" for sentence in answer.learnt[:8])
    if learnt:
        said += f"\n\nWhat I learnt on the way:\n\n{learnt}"
    return _status(run, said)


def failed(run: Run, failure: Failure, detail: str = "") -> str:
    """The status comment when the run could not be done; `detail` as in `Run.detail`."""
    return _status(run, f"I could not work on this: {failure_reason(failure, detail)}")


def refused(login: str) -> str:
    """To someone who may not ask; said once a day and person."""
    return (
        f"Thank you, @{login}. I only start for people who can push to this repository; "
        "one of its maintainers can put the label on instead.\n\n" + refusal_marker(login)
    )


def failure_reason(failure: Failure, detail: str = "") -> str:  # noqa: C901 - one case a sentence
    """Why, and what to do next. `detail` is the command for ENVIRONMENT, the problem for
    CONFIG_INVALID, and unused otherwise."""
    match failure:
        case Failure.ISSUE_GONE:
            return "the issue is no longer in this repository."
        case Failure.ISSUE_CLOSED:
            return f"the issue is closed. If it should be fixed, reopen it and {LABEL_AGAIN}."
        case Failure.REPOSITORY_GONE:
            return (
                "the repository, or the commit I began from, is no longer there. "
                f"If it was moved, {LABEL_AGAIN}."
            )
        case Failure.REPOSITORY_EMPTY:
            return f"the repository has no commits yet. Push some code, then {LABEL_AGAIN}."
        case Failure.CONFIG_INVALID:
            where = f": {prose(detail, 600)}" if detail else "."
            return f"my configuration file is not valid{where}\n\nMend it, then {LABEL_AGAIN}."
        case Failure.NOT_PYTHON:
            return "I found no Python code here, and Python is all that I can fix."
        case Failure.ENVIRONMENT:
            step = f" {code(detail)} failed." if detail else ""
            return (
                f"the repository could not be installed.{step} If it installs for you, say how "
                f"in `.github/capuchin.yml`, then {LABEL_AGAIN}."
            )
        case Failure.MODEL_UNAVAILABLE:
            return f"the language model did not answer for a long time. Later, {LABEL_AGAIN}."
        case Failure.MODEL_MISCONFIGURED:
            return (
                "the language model does not accept the key, name or address that I was given. "
                "Whoever operates this bot has to mend that."
            )
        case Failure.MODEL_REFUSED:
            return "the language model declined to work on this issue. A person has to."
        case Failure.SANDBOX_UNAVAILABLE:
            return (
                f"the sandbox that runs the tests was down for a long time. Later, {LABEL_AGAIN}."
            )
        case Failure.GITHUB_UNAVAILABLE:
            return f"GitHub did not answer for a long time. Later, {LABEL_AGAIN}."
        case Failure.PUBLISH_REFUSED:
            return (
                "I found a fix, but the rules of this repository did not let me open a pull "
                "request for it. Let this App push branches named `capuchin/…`, then "
                f"{LABEL_AGAIN}."
            )
        case Failure.NO_PROGRESS:
            return (
                "I was interrupted again and again without getting further. "
                "Whoever operates this bot finds the reason in its log."
            )
        case Failure.INTERNAL:
            return (
                "I met a bug of my own. Whoever operates this bot finds it in the log, "
                "under the number of the run."
            )
        case _:
            assert_never(failure)


def no_fix_reason(reason: NoFixReason) -> str:  # noqa: C901 - one case a sentence
    """Why there is no fix, and what would help."""
    match reason:
        case "empty repository":
            return f"the repository has no files. Push some code, then {LABEL_AGAIN}."
        case "no source files":
            return "I found no Python code here, and Python is all that I can fix."
        case "no relevant files":
            return (
                "no file of this repository seems to have to do with it. "
                f"Name the function or file in the issue, then {LABEL_AGAIN}."
            )
        case "no reproduction":
            return (
                "I could not write a test that fails because of it. Add a short script that "
                f"shows the problem, what you expected and what happened, then {LABEL_AGAIN}."
            )
        case "no edit":
            return f"no edit that I wrote could be applied. More detail helps; then {LABEL_AGAIN}."
        case "no edit passes its test":
            return (
                "I could make a test fail, but none of my edits made it pass. "
                f"A hint at where the cause lies helps; then {LABEL_AGAIN}."
            )
        case "edits break tests":
            return (
                "every edit that fixed it broke tests of this repository that pass today. "
                f"If one of those tests is wrong, say so in the issue, then {LABEL_AGAIN}."
            )
        case "reproduction not confirmed":
            return (
                "the test, written as a file of this repository, did not fail before the edit "
                f"and pass after it. An example as a test helps; then {LABEL_AGAIN}."
            )
        case "out of budget":
            return (
                "the limit for one run was spent before I was sure. "
                f"Raise it in `.github/capuchin.yml`, then {LABEL_AGAIN}."
            )
        case _:
            assert_never(reason)


def _status(run: Run, said: str) -> str:
    spent = f" · ${run.dollars:.2f} at list prices" if run.dollars else ""
    return f"{said}\n\n<sub>Run `{run.id}`{spent}</sub>\n{status_marker(run.id)}\n"
