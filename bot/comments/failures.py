"""Why a run failed, was stopped, waits, or found no fix."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, get_args

from bot.comments.unpublished import publish_reason
from bot.data.run import Failure, Stop, StopReason
from bot.safe_text import block, code, details, prose
from pipeline.data.types import NoFix, NoFixReason

LABEL_AGAIN = "add the label again"
NO_CODE = "I found no code here that I could run."
_REJECTED_APP: Final = (
    "GitHub rejects the id or the key that I am configured with. The operator of this bot has to "
    "correct it."
)
NO_FIX_REASONS: tuple[NoFixReason, ...] = get_args(NoFixReason)

_NO_FIX_REASONS: Final[Mapping[NoFixReason, str]] = {
    "empty repository": "the repository has no files. Push some code, then {again}.",
    "no source files": NO_CODE,
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
        "I could write a failing test, but no edit I tried made it pass. "
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
    "out of time": (
        "the run reached its time limit. Raise `minutes` in `.github/capuchin.yml`, then {again}."
    ),
    "already fixed": (
        "this looks fixed already. Do you still see it in a version that has the commit below? If "
        "so, add a script that fails there, then {again}; if not, please close the issue."
    ),
    "question": (
        "this reads as a question, and I only fix code. If something is wrong, say what should "
        "happen and what happens, then {again}."
    ),
    "unclear wish": (
        "this asks for something new without saying what exactly should happen. Add an example: "
        "what is called or entered, and what should happen, then {again}."
    ),
    "not this repository": (
        "its cause seems to lie outside this repository. If it does lie here, add a short script "
        "that shows it with this repository's code alone, then {again}."
    ),
}


def no_fix_headline(result: NoFix, fixed_by: int | None = None) -> str:
    """The first sentences of the status comment of a run without a fix.

    `fixed_by`: the merged pull request that fixed it already.
    """
    reason = no_fix_reason(result.reason)
    if result.fixed_since:
        since = f"Fixed since: {result.fixed_since.commit}"
        if fixed_by:
            since += f", merged with #{fixed_by}"
        return f"I changed nothing. {reason[0].upper()}{reason[1:]}\n\n{since}"
    if result.reason in ("question", "unclear wish", "not this repository"):
        return f"I changed nothing: {reason}"
    return f"I did not find a fix that I am confident in: {reason}"


def script_headline(result: NoFix) -> str:
    if result.fixed_since:
        return "A script that fails before that commit, and passes since"
    return "A script that fails on the current code"


def no_fix_reason(reason: NoFixReason, again: str = LABEL_AGAIN) -> str:
    """Why there is no fix, and what would help; `again` tells how to start another run."""
    return _NO_FIX_REASONS[reason].format(again=again)


def waiting_sentence(reason: Failure) -> str:
    if reason is Failure.WRITES_SPENT:
        return "The run is waiting because I reached my own limit of writes on GitHub."
    if reason is Failure.GITHUB_LIMITED:
        return "The run is waiting because GitHub limits how often I may call it."
    if reason is Failure.GITHUB_MISCONFIGURED:
        return f"The run is waiting because {_REJECTED_APP}"
    model, sandbox = "the language model", "the sandbox that runs the tests"
    what = {Failure.MODEL_UNAVAILABLE: model, Failure.SANDBOX_UNAVAILABLE: sandbox}
    return f"The run is waiting for {what.get(reason, 'GitHub')}, which is not responding."


def _missing_permission(detail: str) -> str:
    """`detail` as `bot.errors` makes it: permissions, then a line with the page to accept them."""
    names, _, accept_at = detail.partition("\n")
    what = f"the permission {code(names)}" if names else "a permission"
    where = "in the settings of the installation"
    if re.fullmatch(r"https?://[\w.:/-]+", accept_at):
        where = f"at <{accept_at}>"
    return (
        f"this App has not been granted {what} here. An owner can accept it {where}, "
        f"then {LABEL_AGAIN}."
    )


def _quote_github(detail: str) -> str:
    words = prose(" ".join(detail.split()), 300)
    return f" GitHub says: “{words}”" if words else ""


def _install_failure(detail: str) -> str:
    """`detail` comes from `bot.errors.environment_detail`."""
    command, sentence, log = [*detail.split("\n", 2), "", "", ""][:3]
    step = f" {code(command)} failed." if command else ""
    why = f" {prose(sentence, 1000)}" if sentence else ""
    # Where no lines of `setup` can help, the sentence says what can.
    what = "Change that" if "`dockerfile`" in sentence else "If it installs for you, describe how"
    text = (
        f"the repository could not be installed.{step}{why}\n\n{what} in "
        f"`.github/capuchin.yml`, then {LABEL_AGAIN}."
    )
    if log.strip():
        text += "\n\n" + details("The end of the log", block(log, 3000))
    return text


_FAILURE_REASONS: Final[Mapping[Failure, str]] = {
    Failure.ISSUE_GONE: "the issue is no longer in this repository.",
    Failure.ISSUE_CLOSED: f"the issue is closed. To have it fixed, reopen it and {LABEL_AGAIN}.",
    Failure.REPOSITORY_GONE: (
        "the repository, or the commit that I started from, no longer exists. "
        f"If the repository has moved, {LABEL_AGAIN}."
    ),
    Failure.NOT_INSTALLED: (
        "this App is not installed on the repository any more, or the repository was renamed or "
        f"deleted. Install it there, then {LABEL_AGAIN}."
    ),
    Failure.INSTALLATION_SUSPENDED: (
        "this App's installation is suspended. An owner can lift that in the installation "
        f"settings, then {LABEL_AGAIN}."
    ),
    Failure.REPOSITORY_ARCHIVED: (
        "the repository is archived, so that it can only be read. "
        f"Unarchive it, then {LABEL_AGAIN}."
    ),
    Failure.REPOSITORY_EMPTY: (
        f"the repository has no commits yet. Push some code, then {LABEL_AGAIN}."
    ),
    Failure.NOT_PYTHON: NO_CODE,
    Failure.MODEL_UNAVAILABLE: (
        f"the language model did not respond for a long time. Please {LABEL_AGAIN} later."
    ),
    Failure.MODEL_MISCONFIGURED: (
        "the language model rejected the key, name or address that I am configured with. "
        "The operator of this bot has to correct it."
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
    Failure.WRITES_SPENT: (
        f"I reached my own limit of writes on GitHub. Please {LABEL_AGAIN} later."
    ),
    Failure.GITHUB_LIMITED: (
        f"GitHub limited how often I may call it for a long time. Please {LABEL_AGAIN} later."
    ),
    Failure.GITHUB_MISCONFIGURED: _REJECTED_APP,
    Failure.NO_PROGRESS: (
        "I was interrupted repeatedly and made no progress. "
        "The operator of this bot can find the reason in its log."
    ),
    Failure.INTERNAL: (
        "I ran into an internal error. The operator of this bot can find it in the log, under the "
        "run's id."
    ),
}


def failure_reason(failure: Failure, detail: str = "") -> str:
    """Why the run failed, and what to do next.

    `detail` is `Run.detail` for ENVIRONMENT, PERMISSION_MISSING, POLICY_FORBIDS, GITHUB_REFUSED and
    PUBLISH_REFUSED, the problem for CONFIG_INVALID, OTHER_FORMAT and REPOSITORY_TOO_LARGE, and
    unused otherwise.
    """
    match failure:
        case Failure.REPOSITORY_TOO_LARGE:
            what = prose(" ".join(detail.split()), 200)
            return f"the repository is too large for me to work on. {what}".rstrip()
        case Failure.CONFIG_INVALID:
            where = f": {prose(detail, 600)}" if detail else "."
            return f"my configuration file is not valid{where}\n\nCorrect it, then {LABEL_AGAIN}."
        case Failure.OTHER_FORMAT:
            why = prose(detail, 300)
            return f"another version of me began this run. {why} Please {LABEL_AGAIN}."
        case Failure.PERMISSION_MISSING:
            return _missing_permission(detail)
        case Failure.POLICY_FORBIDS:
            return (
                "a rule of this organisation or of GitHub keeps me out of the repository."
                f"{_quote_github(detail)} An owner can change it, then {LABEL_AGAIN}."
            )
        case Failure.GITHUB_REFUSED:
            return (
                f"GitHub refused a call that I need.{_quote_github(detail)} "
                "The operator of this bot can find the call in the log, under the run's id."
            )
        case Failure.ENVIRONMENT:
            return _install_failure(detail)
        case Failure.PUBLISH_REFUSED:
            return publish_reason(detail)
        case _:
            return _FAILURE_REASONS[failure]


def stop_reason(stop: Stop) -> str:
    """Completes "I stopped …"; names the person who did it."""
    because = {
        StopReason.COMMAND: "as requested",
        StopReason.UNLABELED: "because the label was removed",
        StopReason.CLOSED: "because the issue was closed",
        StopReason.GONE: "because the issue no longer exists",
        StopReason.NO_ACCESS: "because I had no access to this repository",
        StopReason.DISABLED: f"because the label {code(stop.label)} was added",
    }
    return because[stop.why] + (f" (@{stop.by})" if stop.by else "")
