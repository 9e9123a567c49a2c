"""The App's key, installation tokens; the manifest and the keys of a newly created App.

githubkit's App authentication is not used: its tokens cannot be read, but git needs them; it
renews them one minute before they expire, but a fetch may take longer; it keeps using a revoked
token until then; ten concurrent first requests create ten tokens; and its key for the cache
contains no server, so one GitHub could receive the token of another.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import jwt
import yaml
from pydantic import Field

from bot.data.github_facts import AppFacts, Fact, InstallationFacts
from bot.errors import (
    Forbidden,
    GitHubError,
    GitHubMisconfigured,
    NotFound,
    NotInstalled,
    PermissionMissing,
)
from bot.github.http import GitHubAuth, GitHubClient

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

ACTIONS_PERMISSIONS = {"metadata": "read", "actions": "write"}
"""The permissions to read the logs of CI jobs and run failed ones again (`answer_ci`); those of
another token, so that a run does without them where they are not accepted."""

LOOK_PERMISSIONS = {"metadata": "read", "issues": "read", "pull_requests": "read"}
"""The permissions to look, with one token, through all repositories of an installation."""

READ_PERMISSIONS = {"metadata": "read", "contents": "read"}
"""The permissions to read an owner's defaults."""
LEVELS: Final = ("none", "read", "write", "admin")


def find_missing(wanted: Mapping[str, str], granted: Mapping[str, str]) -> tuple[str, ...]:
    """The permissions of `wanted` that are not granted, such as `issues: write`."""
    return tuple(
        f"{name}: {level}"
        for name, level in wanted.items()
        if LEVELS.index(_level(granted, name)) < LEVELS.index(level)
    )


def _level(granted: Mapping[str, str], name: str) -> str:
    level = granted.get(name, "none")
    return level if level in LEVELS else "none"


@lru_cache(maxsize=2)
def _parse_key(private_key: str) -> Any:
    """Cached: parsing takes thirty times as long as signing."""
    return jwt.get_algorithm_by_name("RS256").prepare_key(private_key)


class AppCredential(GitHubAuth):
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

    def discard(self, value: str, refused: GitHubError) -> bool:
        """A fresh JWT would be the same. Raises GitHubMisconfigured."""
        del value
        late = "claim" in refused.words
        what = "key: check this machine's clock" if late else "id or key"
        raise GitHubMisconfigured(
            f"GitHub rejects the App's {what}", status=refused.status, words=refused.words
        ) from None


class MintedToken(NamedTuple):
    value: str
    expires: float
    """Seconds since the epoch."""
    missing: PermissionMissing | None = None
    """Set if the installation lacks permissions: the token has the others."""


class InstallationCredential(GitHubAuth):
    """Authorizes as an installation. Concurrent callers share one token."""

    def __init__(
        self, mint: Callable[[], Awaitable[MintedToken]], clock: Callable[[], float]
    ) -> None:
        self._mint = mint
        self._clock = clock
        self._token = ""
        self._expires = 0.0
        self._missing: PermissionMissing | None = None
        self._lock = asyncio.Lock()

    async def get_token(self) -> str:
        """A token that is valid for at least `RENEW_SECONDS`.

        Raises:
            NotFound: the App is no longer installed there.
            Forbidden: the installation is suspended, or a rule keeps us out.
            GitHubMisconfigured: GitHub rejects the App's id or key.
            GitHubUnavailable: GitHub does not respond.
        """
        async with self._lock:
            if not self._token or self._clock() > self._expires - RENEW_SECONDS:
                self._token, self._expires, self._missing = await self._mint()
            return self._token

    async def check_permissions(self) -> None:
        """Check that the token has every permission that was asked for.

        Raises:
            PermissionMissing: it has not. GitHubError: as `get_token`.
        """
        for again in (True, False):
            await self.get_token()
            if self._missing is None:
                return
            if again:  # an owner may have accepted them meanwhile
                self._token = ""
        raise self._missing

    async def get_header(self) -> str:
        return f"token {await self.get_token()}"

    def discard(self, value: str, refused: GitHubError) -> bool:
        """Forget a token that GitHub rejects, unless a newer one has replaced it."""
        del refused
        if value == f"token {self._token}":
            self._token = ""
        return True


async def mint_token(
    app: GitHubClient,
    installation: int,
    repository: int | str | None,
    permissions: Mapping[str, str],
) -> MintedToken:
    """Create a token for `repository` with `permissions`, by the client of the App itself.

    It is the id, which a rename does not change, or the bare name; None: for the whole
    installation. Where the installation has not accepted all permissions, the token has
    those that it has: enough to say what is missing.
    https://docs.github.com/rest/apps/apps#create-an-installation-access-token-for-an-app

    Raises:
        NotInstalled: the App is no longer installed there, or the installation lacks the
            repository.
        Forbidden: the installation is suspended, or a rule keeps us out.
        GitHubMisconfigured: GitHub rejects the App's id, key or clock.
        GitHubUnavailable: GitHub does not respond.
    """
    body: dict[str, Any] = {}
    if repository is not None:
        body["repository_ids" if isinstance(repository, int) else "repositories"] = [repository]
    where = ("app", "installations", installation, "access_tokens")
    missing: PermissionMissing | None = None
    try:
        try:
            wanted = {**body, "permissions": dict(permissions)}
            made = await app.send("POST", *where, json=wanted)
        except PermissionMissing as refused:
            if repository is None:
                raise
            facts = await load_installation(app, installation)
            missing = explain_refusal(refused, permissions, facts)
            granted = _keep_granted(permissions, facts.permissions)
            made = await app.send("POST", *where, json={**body, "permissions": granted})
    except NotFound as error:
        raise NotInstalled(str(error), status=error.status, words=error.words) from None
    expires = datetime.fromisoformat(str(made["expires_at"]).replace("Z", "+00:00"))
    return MintedToken(str(made["token"]), expires.timestamp(), missing)


def _keep_granted(wanted: Mapping[str, str], granted: Mapping[str, str]) -> dict[str, str]:
    levels = {name: min(level, _level(granted, name), key=LEVELS.index)
              for name, level in wanted.items()}  # fmt: skip
    return {name: level for name, level in levels.items() if level != "none"}


def explain_refusal(
    refused: Forbidden, wanted: Mapping[str, str], installation: InstallationFacts
) -> PermissionMissing:
    """Which permissions of `wanted` the installation lacks, and where its owner accepts them."""
    names = find_missing(wanted, installation.permissions)
    said = f"{refused}; missing: {', '.join(names) or 'unknown'}"
    missing = PermissionMissing(said, status=refused.status, words=refused.words)
    missing.permissions, missing.accept_at = names, installation.html_url
    return missing


async def load_installation(app: GitHubClient, installation: int) -> InstallationFacts:
    return InstallationFacts.model_validate(await app.get("app", "installations", installation))


def describe_missing(granted: AppFacts | InstallationFacts, *, silent: bool = False) -> str:
    """What `granted` lacks of the permissions and events of `app.yml`; empty if nothing.

    `silent`: the App is sent no events on purpose.
    """
    wanted = build_manifest(public_url="", redirect_url="")
    events = () if silent else sorted(set(wanted["default_events"]) - set(granted.events))
    missing = {
        "permissions": find_missing(wanted["default_permissions"], granted.permissions),
        "events": events,
    }
    return "; ".join(f"{part}: {', '.join(names)}" for part, names in missing.items() if names)


class AppRegistration(Fact):
    """The App with its keys, which GitHub sends only once."""

    id: int
    slug: str
    html_url: str
    pem: str = Field(repr=False)
    webhook_secret: str | None = Field(repr=False)
    """None for an App without a webhook."""


class TokenCredential(GitHubAuth):
    """A person's token; without one, no Authorization header is sent."""

    def __init__(self, token: str = "") -> None:
        self._token = token

    async def get_header(self) -> str:
        return f"Bearer {self._token}" if self._token else ""


async def exchange_code(github_url: str, code: str) -> AppRegistration:
    """Exchange a code, which is valid once and for an hour. A failed call is not repeated.

    Raises:
        NotFound: the code was used, or is too old.
        GitHubUnavailable: GitHub does not respond.
        ValidationError: GitHub sent no keys.
    """
    async with GitHubClient(github_url, TokenCredential()) as client:
        made = await client.send("POST", "app-manifests", code, "conversions")
    return AppRegistration.model_validate(made)


_MANIFESTS: Final = tuple(folder / "app.yml" for folder in Path(__file__).parents[1:3])
"""Its place in an installed package, and in the repository."""


def build_manifest(*, public_url: str, redirect_url: str, webhook: bool = True) -> dict[str, Any]:
    """The manifest from which GitHub creates the App.

    `public_url` is the address of `capuchin serve`; GitHub redirects the browser to `redirect_url`.
    Without `webhook` it sends no events.
    """
    place = next(filter(Path.is_file, _MANIFESTS))
    written = cast("dict[str, Any]", yaml.safe_load(place.read_text(encoding="utf-8")))
    hook = {"url": f"{public_url.rstrip('/')}/webhook", "active": True}
    manifest = {
        **written,
        # GitHub wants an address also of a hook that is switched off.
        "hook_attributes": hook if webhook else {"url": written["url"], "active": False},
        "redirect_url": redirect_url,
    }
    return manifest if webhook else {**manifest, "default_events": []}
