"""The App's key, installation tokens; the manifest and the keys of a newly created App.

githubkit's App authentication is not used: its tokens cannot be read, but git needs them; it
renews them one minute before they expire, but a fetch may take longer; it keeps using a revoked
token until then; ten concurrent first requests create ten tokens; and its key for the cache
contains no server, so one GitHub could receive the token of another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

import jwt
import yaml
from pydantic import Field

from bot.data.github_facts import Fact
from bot.errors import Forbidden, GitHubMisconfigured, NotFound, Unprocessable
from bot.github.http import GitHubClient, api_path

RENEW_SECONDS = 5 * 60.0
"""A token is renewed this long before it expires: longer than any call takes."""
PERMISSIONS = {
    "metadata": "read",
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "checks": "write",
    "statuses": "read",
}
"""A run's permissions in a repository; without `workflows`, no edit can change those."""

READ_PERMISSIONS = {"metadata": "read", "contents": "read"}
"""The permissions to read an owner's defaults."""


@lru_cache(maxsize=2)
def _parse_key(private_key: str) -> Any:
    """Cached: parsing takes thirty times as long as signing."""
    return jwt.get_algorithm_by_name("RS256").prepare_key(private_key)


class AppCredential:
    """Authorizes as the App itself, with a JWT of at most ten minutes (docs.github.com/apps)."""

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

    def discard(self, value: str) -> bool:  # noqa: ARG002 - a fresh JWT would be the same
        return False


class InstallationCredential:
    """Authorizes as an installation. Concurrent callers share one token."""

    def __init__(
        self, mint: Callable[[], Awaitable[tuple[str, float]]], clock: Callable[[], float]
    ) -> None:
        self._mint = mint
        self._clock = clock
        self._token = ""
        self._expires = 0.0
        self._lock = asyncio.Lock()

    async def get_token(self) -> str:
        """A token that is valid for at least `RENEW_SECONDS`.

        Raises:
            NotFound: the App is no longer installed there.
            Forbidden: the installation is suspended.
            GitHubMisconfigured: GitHub rejects the App's id or key.
            GitHubUnavailable: GitHub does not respond.
        """
        async with self._lock:
            if not self._token or self._clock() > self._expires - RENEW_SECONDS:
                self._token, self._expires = await self._mint()
            return self._token

    async def get_header(self) -> str:
        return f"token {await self.get_token()}"

    def discard(self, value: str) -> bool:
        """Forget a token that GitHub rejects, unless a newer one has replaced it."""
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
    """Create a token; return it with its expiry in seconds since the epoch.

    It is scoped to `repository` (the bare name) with `permissions`, or, if that is None, to reading
    the whole installation.

    Raises:
        NotFound: the App is no longer installed there, or the installation lacks the repository.
        Forbidden: the installation is suspended, or lacks the permissions.
        GitHubMisconfigured: GitHub rejects the App's id or key.
        GitHubUnavailable: GitHub does not respond.
    """
    body: dict[str, Any] = {"permissions": {"metadata": "read", "issues": "read"}}
    if repository is not None:
        body = {"repositories": [repository], "permissions": dict(permissions)}
    where = api_path("app", "installations", installation, "access_tokens")
    try:
        answer = await client.send("POST", where, app, json=body)
    except Forbidden as error:
        if str(error).endswith("401"):
            raise GitHubMisconfigured("GitHub rejects the App's id or key") from None
        raise
    except Unprocessable:
        # GitHub has one status for "no such repository" and "permission not granted"; the latter
        # only occurs for an App with fewer permissions than in `app.yml`.
        raise NotFound(f"installation {installation} has no such repository") from None
    expires = datetime.fromisoformat(str(answer.data["expires_at"]).replace("Z", "+00:00"))
    return str(answer.data["token"]), expires.timestamp()


class AppRegistration(Fact):
    """The App with its keys, which GitHub sends only once."""

    id: int
    slug: str
    html_url: str
    pem: str = Field(repr=False)
    webhook_secret: str | None = Field(repr=False)
    """None for an App without a webhook."""


class NoCredential:
    """Sends no Authorization header."""

    async def get_header(self) -> str:
        return ""

    def discard(self, value: str) -> bool:  # noqa: ARG002 - there is no other credential
        return False


async def exchange_code(github_url: str, code: str) -> AppRegistration:
    """Exchange a code, which is valid once and for an hour. A failed call is not repeated.

    Raises:
        NotFound: the code was used, or is too old.
        GitHubUnavailable: GitHub does not respond.
        ValidationError: GitHub sent no keys.
    """
    async with GitHubClient(github_url) as client:
        answer = await client.send(
            "POST", api_path("app-manifests", code, "conversions"), NoCredential()
        )
    return AppRegistration.model_validate(answer.data)


_PACKAGED_PATH: Final = Path(__file__).parents[2] / "app.yml"
"""Its place in an installed package."""
_SOURCE_PATH: Final = Path(__file__).parents[3] / "app.yml"
"""Its place in the repository."""
MAX_NAME_LENGTH: Final = 34
"""GitHub's limit for an App's name."""


def build_manifest(
    *, name: str, public_url: str, redirect_url: str, webhook: bool = True
) -> dict[str, Any]:
    """The manifest from which GitHub creates the App.

    `public_url` is the address of `capuchin serve`; GitHub redirects the browser to `redirect_url`.
    Without `webhook` it sends no events.
    """
    place = _PACKAGED_PATH if _PACKAGED_PATH.is_file() else _SOURCE_PATH
    written = cast("dict[str, Any]", yaml.safe_load(place.read_text(encoding="utf-8")))
    hook = {"url": f"{public_url.rstrip('/')}/webhook", "active": True}
    manifest = {
        **written,
        "name": name or written["name"],
        # GitHub wants an address also of a hook that is switched off.
        "hook_attributes": hook if webhook else {"url": written["url"], "active": False},
        "redirect_url": redirect_url,
    }
    return manifest if webhook else {**manifest, "default_events": []}
