"""Why there is no fix, and what would help: a sentence for each reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from pipeline.types import NoFix, NoFixReason

LABEL_AGAIN = "add the label again"
NO_PYTHON = "I found no Python code here, and I can only fix Python."
NO_FIX_REASONS: tuple[NoFixReason, ...] = get_args(NoFixReason)

_NO_FIX_REASONS: Final[Mapping[NoFixReason, str]] = {
    "empty repository": "the repository has no files. Push some code, then {again}.",
    "no source files": NO_PYTHON,
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
    "out of time": "its time was over. Raise `minutes` in `.github/capuchin.yml`, then {again}.",
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
        "what is called or entered, and what should come of it, then {again}."
    ),
    "not this repository": (
        "its cause seems to lie outside this repository. If it does lie here, add a short script "
        "that shows it with this repository's code alone, then {again}."
    ),
}
_NOTHING_TO_FIX: Final[frozenset[NoFixReason]] = frozenset(
    {"question", "unclear wish", "not this repository"}
)


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
    if result.reason in _NOTHING_TO_FIX:
        return f"I changed nothing: {reason}"
    return f"I did not find a fix that I am confident in: {reason}"


def script_headline(result: NoFix) -> str:
    """What `result.script` shows."""
    if result.fixed_since:
        return "A script that fails before that commit, and passes since"
    return "A script that fails on the current code"


def no_fix_reason(reason: NoFixReason, again: str = LABEL_AGAIN) -> str:
    """Why there is no fix, and what would help; `again` says how to start another run."""
    return _NO_FIX_REASONS[reason].format(again=again)
