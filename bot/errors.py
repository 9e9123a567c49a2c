"""What can go wrong on the GitHub side; branches answer who can do something about it.

BotError
├── TryLater    passes by itself: the run goes back to the queue and is tried again
└── LeaseLost   nobody's: another worker has the run now, so this one must have no more effects
"""

from __future__ import annotations

from bot.types import Failure, RunStatus


class BotError(Exception):
    """Something went wrong that is neither the repository's fault nor a bug."""


class TryLater(BotError):
    """What the run needs does not answer now.

    `reason` is what the maintainer is told if it never comes back; `after` is in seconds.
    """

    def __init__(self, reason: Failure, after: float) -> None:
        super().__init__(f"{reason.value}; again in {after:.0f} s")
        self.reason = reason
        self.after = after


class LeaseLost(BotError):
    """This worker was silent for too long, and its run may be another's."""


class RunFailed(Exception):
    """The run is over without an answer; `failure` and `detail` are what the maintainer hears."""

    def __init__(self, failure: Failure, detail: str = "") -> None:
        super().__init__(failure.value)
        self.failure = failure
        self.detail = detail


class PublishRefused(Exception):
    """The repository's rules do not let us push a branch or open a pull request."""


class UnfitDiff(Exception):
    """A diff does not apply, or changes what no edit may: git's own files, or GitHub's."""


class RepositoryGone(Exception):
    """The remote has no such repository, or no longer the commit that a run began from."""


class RepositoryEmpty(Exception):
    """The repository has no commit on its default branch."""


class PushRejected(Exception):
    """The remote's branch is not where we expected it, or its rules forbid the push."""


class RunRefused(Exception):
    """The run ends here, and is no failure.

    `comment` is for the status comment; empty: a polite sentence has been said, or none is needed.
    """

    def __init__(self, status: RunStatus = RunStatus.REFUSED, comment: str = "") -> None:
        super().__init__(status.value)
        self.status = status
        self.comment = comment
