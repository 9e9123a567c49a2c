"""The exceptions of the GitHub side. Branches answer one question: who can do something about it.

BotError
├── TryLater             nobody: it passes by itself, and the run or command is tried again
├── LeaseLost            nobody: another worker has the run, and this one must stop at once
├── RunEnded             the maintainer
│   ├── RunFailed        the run ended without an answer
│   ├── RunRefused       the run may not work, which is no failure
│   └── SwapRefused      `/capuchin use` cannot replace the edit
├── Superseded           another run, which does what is left to do on a pull request
├── PublishError         the repository's maintainer, who makes its rules
│   ├── PublishRefused   no branch or pull request of ours
│   ├── PushRejected     not this push
│   └── UnfitDiff        not this diff
├── RepositoryError      the repository's owner
│   ├── RepositoryGone
│   └── RepositoryEmpty
├── GitHubError          a call to GitHub failed; its own tree is in `bot.github.errors`
├── SettingsError        the operator, in `bot.settings`
├── InvalidSignature, MalformedPayload, BodyTooLarge, BodyTooSlow, TooMuchAtOnce
│                        the sender of a webhook, in `bot.events` and `bot.server`
├── ArchiveUnavailable   the operator, whose object store fails, in `bot.archive`
├── BundleTooLarge       who downloads a run's bundle, in `bot.archive`
├── UnreadableYaml       the author of `capuchin.yml`, in `bot.repo_config`
└── WrongUsage, NoRepository, CheckFailed, CannotTell, EnvFileError, DemoFailed
                         the user of the command line, in `bot.cli` and `bot.demo`

`bot.failures` turns the errors of GitHub, git, models and sandbox into `TryLater` or `RunFailed`.
The pipeline and the sandbox have trees of their own (`pipeline.errors`, `sandbox.errors`).
"""

from __future__ import annotations

from bot.types import Failure, RunStatus


class BotError(Exception):
    """The root of every exception of the GitHub side, except those of its stand-ins."""


class TryLater(BotError):
    """Something that the run needs does not answer now; always raised, never returned.

    `reason` is the failure to report if it never answers; `after` is the pause in seconds.
    """

    def __init__(self, reason: Failure, after: float) -> None:
        super().__init__(f"{reason.value}; again in {after:.0f} s")
        self.reason = reason
        self.after = after


class LeaseLost(BotError):
    """This worker did not renew the lease in time; another may have the run."""


class RunEnded(BotError):
    """The run is over before it came to a result."""


class RunFailed(RunEnded):
    """The run ended without an answer; `failure` and `detail` are reported to the maintainer."""

    def __init__(self, failure: Failure, detail: str = "") -> None:
        super().__init__(failure.value)
        self.failure = failure
        self.detail = detail


class RunRefused(RunEnded):
    """The run ends here, and that is no failure.

    `comment` is the final status comment; empty when a refusal was posted or none is needed.
    """

    def __init__(self, status: RunStatus = RunStatus.REFUSED, comment: str = "") -> None:
        super().__init__(status.value)
        self.status = status
        self.comment = comment


class SwapRefused(RunEnded):
    """Another edit cannot replace the one in a pull request; `str(error)` is the reason."""


class Superseded(BotError):
    """The pull request was closed or got another edit from us: another run does the rest."""


class PublishError(BotError):
    """The repository does not take what we want to publish."""


class PublishRefused(PublishError):
    """The repository's rules do not let us push a branch or open a pull request."""


class PushRejected(PublishError):
    """The branch at the remote is not where we expected it, or its rules forbid the push."""


class UnfitDiff(PublishError):
    """A diff does not apply, or changes what no edit may change: git's own files, or GitHub's."""


class RepositoryError(BotError):
    """The repository has nothing to work on."""


class RepositoryGone(RepositoryError):
    """The remote has no such repository, or no longer the commit that a run began from."""


class RepositoryEmpty(RepositoryError):
    """The repository has no commit on its default branch."""
