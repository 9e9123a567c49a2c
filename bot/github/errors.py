"""What can go wrong between us and GitHub, by who can do something about it."""

from __future__ import annotations

from bot.errors import BotError


class GitHubError(BotError):
    """A call to GitHub failed. `str(error)` names the call and the status: never a body or token.

    GitHubError
    ├── GitHubUnavailable    passes by itself: 5xx, no network, rate limit
    ├── NotFound             gone, or not visible to this installation (404, 410)
    ├── Forbidden            the installation may not do this (401, 403)
    ├── Unprocessable        refused as it stands: duplicate, closed, missing (409, 422)
    └── GitHubMisconfigured  the operator's: wrong App id or private key
    """


class GitHubUnavailable(GitHubError):
    """GitHub cannot answer now. `retry_after` is in seconds, None when GitHub did not say."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotFound(GitHubError):
    """No such thing, or this installation cannot see it."""


class Forbidden(GitHubError):
    """The installation lacks a permission, or has been suspended."""


class Unprocessable(GitHubError):
    """GitHub understood and refused: a duplicate, a missing branch, a locked issue."""


class GitHubMisconfigured(GitHubError):
    """GitHub does not know this App id and private key."""
