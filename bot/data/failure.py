"""The table of failures: why a run ended without an answer, or waits, and what people can do."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

from sandbox.frozen import Frozen

PublishProblem = Literal[
    "approval",
    "workflows",
    "signatures",
    "secrets",
    "branch name",
    "commit message",
    "author",
    "file size",
    "large file storage",
    "restricted path",
    "allow list",
    "hook",
    "rule",
    "archived",
    "permission",
    "branch moved",
    "names taken",
    "pull request",
    "base gone",
    "commits dropped",
    "gone",
]
"""Why commits or their pull request are not published. `approval`: nobody has asked for it yet.
`rule`: another one, in GitHub's words; `hook`: a program of the server, without a rule of
GitHub's. `commits dropped`: the base branch was reset by force to
before our base."""


class FailureFacts(Frozen):
    """What the sentence of a failure repeats. All text is untrusted."""

    words: str = ""
    """What GitHub, the installer or the check of the repository says of it."""
    command: str = ""
    """The step of the installation that failed."""
    log: str = ""
    """The end of its output."""
    permissions: tuple[str, ...] = ()
    """Those that the installation lacks, such as `issues: write`."""
    accept_at: str = ""
    """The page on which an owner accepts them; empty if unknown."""
    problem: PublishProblem = "rule"


NO_FACTS: Final = FailureFacts()


class Failure(StrEnum):
    """A closed list: name, sentence with what to do, and for one that passes, what a run waits for.

    `bot.comments.failures` fills the fields of a sentence; the text of an exception is not shown.
    """

    _value_: str
    sentence: str
    waiting: str

    def __new__(cls, name: str, sentence: str, waiting: str = "") -> Failure:
        member = str.__new__(cls, name)
        member._value_ = name
        member.sentence = sentence
        member.waiting = waiting
        return member

    ISSUE_GONE = "issue gone", "the issue is no longer in this repository."
    ISSUE_CLOSED = "issue closed", "the issue is closed. To have it fixed, reopen it and {again}."
    REPOSITORY_GONE = (
        "repository gone",
        "the repository, or the commit that I started from, no longer exists. "
        "If the repository has moved, {again}.",
    )
    NOT_INSTALLED = (
        "not installed",
        "this App is not installed on the repository any more, or the repository was renamed or "
        "deleted. Install it there, then {again}.",
    )
    PERMISSION_MISSING = (
        "permission missing",
        "this App has not been granted {permission} here. An owner can accept it {where}, "
        "then {again}.",
    )
    INSTALLATION_SUSPENDED = (
        "installation suspended",
        "this App's installation is suspended. An owner can lift that in the installation "
        "settings, then {again}.",
    )
    REPOSITORY_ARCHIVED = (
        "repository archived",
        "the repository is archived, so that it can only be read. Unarchive it, then {again}.",
    )
    POLICY_FORBIDS = (
        "policy forbids",
        "a rule of this organisation or of GitHub keeps me out of the repository.{quote} An owner "
        "can change it, then {again}.",
    )
    GITHUB_REFUSED = (
        "github refused",
        "GitHub refused a call that I need.{quote} The operator of this bot can find the call in "
        "the log, under the run's id.",
    )
    REPOSITORY_EMPTY = (
        "repository empty",
        "the repository has no commits yet. Push some code, then {again}.",
    )
    REPOSITORY_TOO_LARGE = (
        "repository too large",
        "the repository is too large for me to work on.{words}",
    )
    CONFIG_INVALID = (
        "config invalid",
        "my configuration file is not valid{what}\n\nCorrect it, then {again}.",
    )
    NOT_PYTHON = "not python", "I found no code here that I could run."
    ENVIRONMENT = (
        "environment",
        "the repository could not be installed.{step}{words}\n\n{advice} in "
        "`.github/capuchin.yml`, then {again}.{log}",
    )
    MODEL_UNAVAILABLE = (
        "model unavailable",
        "the language model did not respond for a long time. Please {again} later.",
        "for the language model, which is not responding",
    )
    MODEL_MISCONFIGURED = (
        "model misconfigured",
        "the language model rejected the key, name or address that I am configured with. "
        "The operator of this bot has to correct it.",
    )
    MODEL_REFUSED = (
        "model refused",
        "the language model declined to work on this issue. It needs a person.",
    )
    SANDBOX_UNAVAILABLE = (
        "sandbox unavailable",
        "the sandbox that runs the tests was unavailable for a long time. Please {again} later.",
        "for the sandbox that runs the tests, which is not responding",
    )
    PUBLISH_REFUSED = "publish refused", "{unpublished}"
    GITHUB_UNAVAILABLE = (
        "github unavailable",
        "GitHub did not respond for a long time. Please {again} later.",
        "for GitHub, which is not responding",
    )
    GITHUB_LIMITED = (
        "github limited",
        "GitHub limited how often I may call it for a long time. Please {again} later.",
        "because GitHub limits how often I may call it",
    )
    GITHUB_MISCONFIGURED = (
        "github misconfigured",
        "GitHub rejects the id or the key that I am configured with. The operator of this bot has "
        "to correct it.",
        "because GitHub rejects the id or the key that I am configured with. The operator of this "
        "bot has to correct it",
    )
    WRITES_SPENT = (
        "writes spent",
        "I reached my own limit of writes on GitHub. Please {again} later.",
        "because I reached my own limit of writes on GitHub",
    )
    NO_PROGRESS = (
        "no progress",
        "I was interrupted repeatedly and made no progress. "
        "The operator of this bot can find the reason in its log.",
    )
    OTHER_FORMAT = "other format", "another version of me began this run.{words} Please {again}."
    INTERNAL = (
        "internal",
        "I ran into an internal error. The operator of this bot can find it in the log, under the "
        "run's id.",
        "because of an internal error, and will try again",
    )
