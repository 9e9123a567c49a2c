"""The GitHub App: who it is, where it is installed, and a door to each repository."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx

from bot.github.errors import (
    Forbidden,
    GitHubError,
    GitHubMisconfigured,
    GitHubUnavailable,
    NotFound,
)
from bot.github.http import Wire, is_github_com, path
from bot.github.repository import DEFAULTS_REPOSITORY, Identity, Repository
from bot.github.repository_api import Scope
from bot.github.tokens import (
    PERMISSIONS,
    READING,
    AppCredential,
    InstallationCredential,
    mint,
)
from bot.settings import Settings
from bot.types import RepoRef

Key = tuple[int, str, str, str]
TOKENS_KEPT = 256
"""Credentials remembered; the oldest is made anew when its repository comes up again."""


class GitHubApp:
    """Cheap to make: connects to nothing until asked. One for each process.

    `clock` gives seconds since the epoch; `pause` is the first wait between tries, in seconds;
    `transport` is the way to GitHub, None for the network.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
        pause: float = 0.5,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = settings.github_url.rstrip("/")
        self._settings = settings
        self._clock = clock
        self._pause = pause
        self._transport = transport
        self._credentials: dict[Key, InstallationCredential] = {}
        self._signer: AppCredential | None = None
        self._identity: Identity | None = None
        self._identity_lock = asyncio.Lock()

    @asynccontextmanager
    async def repository(self, ref: RepoRef) -> AsyncGenerator[Repository, None]:
        """The repository `ref` for the length of the block, over one pool of connections.

        Entering asks who we are, once in the life of this object.

        Raises:
            GitHubMisconfigured: the App's id and key do not go together.
            GitHubUnavailable: GitHub does not answer.
            NotFound: the App is not installed there.
        """
        async with self._wire() as wire:
            credential = self._credential(ref)
            await credential.token()
            identity = await self._who(wire, credential)
            defaults = Scope(wire, self._reader(ref), ref.owner, DEFAULTS_REPOSITORY)
            scope = Scope(wire, credential, ref.owner, ref.name)
            yield Repository(scope, ref, identity, defaults=defaults)

    async def repositories(self) -> AsyncIterator[RepoRef]:
        """Every repository the App is installed on; a suspended installation is passed over."""
        async with self._wire() as wire:
            listed = wire.pages(path("app", "installations"), self._app(), limit=100)
            async for installation in listed:
                if installation.get("suspended_at"):
                    continue
                async for ref in self._installed(wire, int(installation["id"])):
                    yield ref

    async def reader(self, owner: str, name: str) -> InstallationCredential | None:
        """What reads one repository's code and issues; None where the App is not installed.

        Raises as `Wire.send`, and GitHubMisconfigured.
        """
        async with self._wire() as wire:
            where = path("repos", owner, name, "installation")
            try:
                found = await wire.send("GET", where, self._app())
            except NotFound:
                return None
        return self._minted(int(found.data["id"]), name, {**READING, "issues": "read"})

    async def _installed(self, wire: Wire, installation: int) -> AsyncIterator[RepoRef]:
        credential = self._kept(installation, "", None)
        pages = wire.pages(
            path("installation", "repositories"), credential, limit=100, items="repositories"
        )
        try:
            async for item in pages:
                owner = str(item["owner"]["login"])
                yield RepoRef(owner=owner, name=str(item["name"]), installation=installation)
        except GitHubUnavailable:
            raise
        except GitHubError:  # uninstalled while we were listing
            return

    async def _who(self, wire: Wire, credential: InstallationCredential) -> Identity:
        async with self._identity_lock:
            if self._identity is None:
                try:
                    app = await wire.send("GET", path("app"), self._app())
                except (Forbidden, NotFound):
                    raise GitHubMisconfigured("GitHub does not accept the App's key") from None
                login = f"{app.data['slug']}[bot]"
                self._identity = Identity(
                    login=login, email=await self._email(wire, credential, login)
                )
            return self._identity

    async def _email(self, wire: Wire, credential: InstallationCredential, login: str) -> str:
        """GitHub knows a commit as the App's by the number before its login."""
        host = "github.com" if is_github_com(self._url) else urlsplit(self._url).hostname
        try:
            user = await wire.send("GET", path("users", login), credential)
        except NotFound:
            return f"{login}@users.noreply.{host}"
        return f"{user.data['id']}+{login}@users.noreply.{host}"

    def _app(self) -> AppCredential:
        key = self._settings.private_key()
        if self._signer is None or self._signer.private_key != key:
            self._signer = AppCredential(self._settings.github_app_id, key)
        return self._signer

    def _wire(self) -> Wire:
        return Wire(self._url, pause=self._pause, transport=self._transport)

    def _credential(self, ref: RepoRef) -> InstallationCredential:
        return self._kept(ref.installation, ref.owner, ref.name)

    def _reader(self, ref: RepoRef) -> InstallationCredential:
        """Reads the settings that the owner has for all repositories, and can do no more."""
        return self._kept(ref.installation, ref.owner, DEFAULTS_REPOSITORY, reading=True)

    def _kept(
        self, installation: int, owner: str, name: str | None, *, reading: bool = False
    ) -> InstallationCredential:
        """One credential for each purpose: GitHub counts what asks for a token."""
        key = (installation, owner.lower(), (name or "").lower(), "read" if reading else "")
        if key not in self._credentials:
            while len(self._credentials) >= TOKENS_KEPT:
                del self._credentials[next(iter(self._credentials))]
            permissions = READING if reading else PERMISSIONS
            self._credentials[key] = self._minted(installation, name, permissions)
        return self._credentials[key]

    def _minted(
        self,
        installation: int,
        repository: str | None,
        permissions: Mapping[str, str] = PERMISSIONS,
    ) -> InstallationCredential:
        async def fresh() -> tuple[str, float]:
            # A connection of its own: the one that asks may close while others still wait.
            async with self._wire() as wire:
                return await mint(wire, self._app(), installation, repository, permissions)

        return InstallationCredential(fresh, self._clock)
