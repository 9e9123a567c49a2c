"""Installation tokens: made from the App's key, for one repository, renewed before they expire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import jwt

from bot.github.errors import Forbidden, GitHubMisconfigured, NotFound, Unprocessable
from bot.github.http import GitHubClient, api_path

RENEW_SECONDS = 5 * 60.0
"""A token is renewed this long before it expires: longer than any one call takes."""
PERMISSIONS = {
    "metadata": "read",
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "checks": "write",
    "statuses": "read",
}
"""What a run needs of a repository; `workflows` is not among it, so no edit can reach them."""

READ_PERMISSIONS = {"metadata": "read", "contents": "read"}
"""What reading an owner's defaults needs."""


@lru_cache(maxsize=2)
def _parse_key(private_key: str) -> Any:
    """Kept: parsing takes thirty times as long as signing."""
    return jwt.get_algorithm_by_name("RS256").prepare_key(private_key)


class AppCredential:
    """Signs as the App itself: a JWT of at most ten minutes (docs.github.com/apps)."""

    def __init__(self, app_id: str, private_key: str) -> None:
        self._app_id = app_id
        self.private_key = private_key

    async def get_header(self) -> str:
        now = int(time.time())
        claims = {"iss": self._app_id, "iat": now - 60, "exp": now + 9 * 60}
        try:
            return "Bearer " + jwt.encode(claims, _parse_key(self.private_key), algorithm="RS256")
        except (ValueError, TypeError, jwt.PyJWTError):
            raise GitHubMisconfigured("the App's private key is not an RSA key") from None

    def discard(self, value: str) -> bool:  # noqa: ARG002 - a fresh JWT would say the same
        return False


class InstallationCredential:
    """Signs as an installation. One token at a time, made once however many ask for it."""

    def __init__(
        self, mint: Callable[[], Awaitable[tuple[str, float]]], clock: Callable[[], float]
    ) -> None:
        self._mint = mint
        self._clock = clock
        self._token = ""
        self._expires = 0.0
        self._lock = asyncio.Lock()

    async def get_token(self) -> str:
        """A token good for at least `RENEW_SECONDS`.

        Raises:
            NotFound: the App is no longer installed there. Others as `GitHubClient.send`.
        """
        async with self._lock:
            if not self._token or self._clock() > self._expires - RENEW_SECONDS:
                self._token, self._expires = await self._mint()
            return self._token

    async def get_header(self) -> str:
        return f"token {await self.get_token()}"

    def discard(self, value: str) -> bool:
        """Forget a token that GitHub no longer takes, unless a newer one is here already."""
        if value == f"token {self._token}":
            self._token = ""
        return True


async def mint_token(
    client: GitHubClient,
    app: AppCredential,
    installation: int,
    repository: str | None,
    permissions: Mapping[str, str] = PERMISSIONS,
) -> tuple[str, float]:
    """A fresh token and when it expires (seconds since the epoch).

    Scoped to `repository` (its bare name) with `permissions`, or to the whole installation,
    reading only, when None.

    Raises:
        NotFound: not installed there any more, or the repository is not part of it.
        Forbidden: suspended, or the permissions were not granted.
        GitHubMisconfigured: GitHub does not know the App's id and key.
    """
    body: dict[str, Any] = {"permissions": {"metadata": "read", "issues": "read"}}
    if repository is not None:
        body = {"repositories": [repository], "permissions": dict(permissions)}
    where = api_path("app", "installations", installation, "access_tokens")
    try:
        answer = await client.send("POST", where, app, json=body)
    except Forbidden as error:
        if str(error).endswith("401"):
            raise GitHubMisconfigured("GitHub does not accept the App's id and key") from None
        raise
    except Unprocessable:
        # One status for "no such repository here" and "permission not granted"; the latter
        # comes only from an App registered with fewer permissions than `app.yml`.
        raise NotFound(f"installation {installation} has no such repository") from None
    expires = datetime.fromisoformat(str(answer.data["expires_at"]).replace("Z", "+00:00"))
    return str(answer.data["token"]), expires.timestamp()
