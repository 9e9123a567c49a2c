"""Why a run failed, was stopped, waits, or found no fix."""

import re
from collections.abc import Mapping
from typing import Final, get_args

from bot.comments.unpublished import publish_reason
from bot.data.failure import NO_FACTS, Failure, FailureFacts
from bot.data.run import Stop, StopReason
from bot.safe_text import block, code, details, prose
from pipeline.data.types import NoFix, NoFixReason

LABEL_AGAIN = "add the label again"
NO_FIX_REASONS: tuple[NoFixReason, ...] = get_args(NoFixReason)

_NO_FIX_REASONS: Final[Mapping[NoFixReason, str]] = {
    "empty repository": "the repository has no files. Push some code, then {again}.",
    "no source files": Failure.NOT_PYTHON.sentence,
    "no relevant files": (
        "no file in this repository seems related to it. "
        "Name the function or file in the issue, then {again}."
    ),
    "no reproduction": (
        "I could not write a test that fails because of it. Add a short script that shows the "
        "problem, what you expected and what happened, then {again}."
    ),
    "no edit": (
        "I have no edit that can be applied; why stands below. Add more detail to the issue, "
        "then {again}."
    ),
    "no edit passes its test": (
        "I could write a failing test, but no edit I tried made it pass. "
        "Add a hint about the cause, then {again}."
    ),
    "edits break tests": (
        "every edit that fixed it broke tests of this repository that pass today, or forged their "
        "results. "
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
    "not reproduced": (
        "I cannot reproduce it. Add a script that fails on the current code, with the versions and "
        "settings that it needs, then {again}; if it is fixed, please close the issue."
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
    if result.reason in ("not reproduced", "question", "unclear wish", "not this repository"):
        return f"I changed nothing: {reason}"
    return f"I did not find a fix that I am confident in: {reason}"


def script_headline(result: NoFix) -> str:
    if result.fixed_since:
        return "A script that fails before that commit, and passes since"
    if result.reason == "not reproduced":
        return "A script written from the issue, which passes on the current code"
    return "A script that fails on the current code"


def no_fix_reason(reason: NoFixReason, again: str = LABEL_AGAIN) -> str:
    """Why there is no fix, and what would help; `again` tells how to start another run."""
    return _NO_FIX_REASONS[reason].format(again=again)


def waiting_sentence(reason: Failure) -> str:
    return f"The run is waiting {reason.waiting}."


def failure_reason(failure: Failure, facts: FailureFacts = NO_FACTS) -> str:
    """Why the run failed, and what to do next."""
    said, step = " ".join(facts.words.split()), " ".join(facts.command.split())
    where = "in the settings of the installation"
    if re.fullmatch(r"https?://[\w.:/-]+", facts.accept_at):
        where = f"at <{facts.accept_at}>"
    permission = f"the permission {code(', '.join(facts.permissions))}"
    # Where no lines of `setup` can help, the installer's words say what can.
    advice = "Change that" if "`dockerfile`" in said else "If it installs for you, describe how"
    return failure.sentence.format(
        again=LABEL_AGAIN,
        words=f" {prose(said, 1000)}" if said else "",
        what=f": {prose(said, 600)}" if said else ".",
        quote=f" GitHub says: “{prose(said, 300)}”" if said else "",
        permission=permission if facts.permissions else "a permission",
        where=where,
        step=f" {code(step)} failed." if step else "",
        advice=advice,
        log="\n\n" + details("The end of the log", block(facts.log, 3000)) if facts.log else "",
        unpublished=publish_reason(facts),
    )


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
