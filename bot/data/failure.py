"""Why a run ended without an answer, or waits, and what people can do.

A failure is a name here and its sentence in `failures.toml`.
"""

import tomllib
from enum import StrEnum
from pathlib import Path
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


SwapProblem = Literal[
    "run expired",
    "edits expired",
    "pull request closed",
    "no such edit",
    "already there",
    "test fails",
    "changed after review",
    "pushed by others",
    "forbidden path",
    "edit conflicts",
    "push rejected",
]
"""Why `use` cannot replace an edit."""


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


SENTENCES: Final[dict[str, dict[str, dict[str, str]]]] = tomllib.loads(
    Path(__file__).with_name("failures.toml").read_text("utf-8")
)
"""The rows of `failures.toml` by table and name: `sentence`, and for some `waiting`,
`judged` or `advice`."""


class Failure(StrEnum):
    """A closed list. `bot.comments.failures` fills the fields of a sentence; the text of an
    exception is not shown."""

    ISSUE_GONE = "issue gone"
    ISSUE_CLOSED = "issue closed"
    REPOSITORY_GONE = "repository gone"
    NOT_INSTALLED = "not installed"
    PERMISSION_MISSING = "permission missing"
    INSTALLATION_SUSPENDED = "installation suspended"
    REPOSITORY_ARCHIVED = "repository archived"
    POLICY_FORBIDS = "policy forbids"
    GITHUB_REFUSED = "github refused"
    REPOSITORY_EMPTY = "repository empty"
    REPOSITORY_TOO_LARGE = "repository too large"
    CONFIG_INVALID = "config invalid"
    NOT_PYTHON = "not python"
    ENVIRONMENT = "environment"
    MODEL_UNAVAILABLE = "model unavailable"
    MODEL_MISCONFIGURED = "model misconfigured"
    MODEL_REFUSED = "model refused"
    SANDBOX_UNAVAILABLE = "sandbox unavailable"
    PUBLISH_REFUSED = "publish refused"
    GITHUB_UNAVAILABLE = "github unavailable"
    GITHUB_LIMITED = "github limited"
    GITHUB_MISCONFIGURED = "github misconfigured"
    WRITES_SPENT = "writes spent"
    NO_PROGRESS = "no progress"
    OTHER_FORMAT = "other format"
    INTERNAL = "internal"

    @property
    def sentence(self) -> str:
        """Why, and what people can do."""
        return SENTENCES["failure"][self]["sentence"]

    @property
    def waiting(self) -> str:
        """What a run waits for; empty for a failure that does not pass by itself."""
        return SENTENCES["failure"][self].get("waiting", "")
