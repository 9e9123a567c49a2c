"""The exceptions of calls to GitHub, by who can correct the problem."""

from __future__ import annotations

from bot.errors import BotError


class GitHubError(BotError):
    """A call to GitHub failed. `str(error)` names the call and the status: never a body or token.

    GitHubError
    ├── GitHubUnavailable    temporary: 5xx, no network, rate limit
    │   └── WritesSpent      by our own limit, until the next hour
    ├── NotFound             gone, or invisible to this installation (404, 410)
    ├── Forbidden            not permitted for this installation (401, 403)
    ├── Unprocessable        invalid: a duplicate, closed, missing (409, 422)
    └── GitHubMisconfigured  for the operator: wrong App id or private key
    """


class GitHubUnavailable(GitHubError):
    """GitHub does not respond. `retry_after` is in seconds; None if GitHub did not specify it."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class WritesSpent(GitHubUnavailable):
    """The hour's writes to the repository are spent; the wait is `retry_after`."""


class NotFound(GitHubError):
    """The object does not exist, or this installation cannot see it."""


class Forbidden(GitHubError):
    """The installation lacks a permission, or has been suspended."""


class Unprocessable(GitHubError):
    """GitHub rejects the request: a duplicate, a missing branch, a locked issue."""


class GitHubMisconfigured(GitHubError):
    """GitHub rejects the App's id or private key."""
