"""The GitHub App: its identity, its installations, and access to each repository."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx

from bot.data.github_facts import AppFacts, DeliveryFacts, Identity, InstallationFacts
from bot.data.run import Login, RepoRef
from bot.errors import Forbidden, GitHubError, GitHubMisconfigured, GitHubUnavailable, NotFound
from bot.github.actions import Actions
from bot.github.credentials import (
    ACTIONS_PERMISSIONS,
    LEVELS,
    PERMISSIONS,
    READ_PERMISSIONS,
    AppCredential,
    InstallationCredential,
    MintedToken,
    describe_missing,
    explain_refusal,
    find_missing,
    load_installation,
    mint_token,
)
from bot.github.http import ConditionalLists, GitHubClient, api_path, is_github_com
from bot.github.repository import DEFAULTS_REPOSITORY, Repository
from bot.github.repository_api import MINOR_SHARE, OpenWriteBudget, RepositoryApi, check_block
from bot.settings import GitHubSettings

CredentialKey = tuple[int, int | str, frozenset[str]]


def _read_accepted(header: str) -> list[dict[str, str]]:
    """The sets of permissions in `x-accepted-github-permissions`, any of which would do.

    Without the header, all that a run may need.
    https://docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api
    """
    sets = [
        {name: level for name, _, level in (one.strip().partition("=") for one in each.split(","))}
        for each in header.split(";")
    ]
    known = [each for each in sets if set(each.values()) <= set(LEVELS)]
    return known or [dict(PERMISSIONS)]


class GitHubApp:
    """One for each process. The constructor does not connect.

    `clock` returns seconds since the epoch; `pause` is the first wait between retries, in seconds;
    `transport` replaces the network in tests.

    All methods raise:
        GitHubMisconfigured: GitHub rejects the App's id or key.
        GitHubUnavailable: GitHub does not respond.
    """

    def __init__(
        self,
        settings: GitHubSettings,
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
        self._credentials: dict[CredentialKey, InstallationCredential] = {}
        self._signer: AppCredential | None = None
        self._lists = ConditionalLists()
        self._identity: Identity | None = None
        self._identity_lock = asyncio.Lock()
        self.open_writes: OpenWriteBudget | None = None
        """Opens the budget of writes of an installation; without it, writes have no limit."""

    @asynccontextmanager
    async def open_repository(
        self, ref: RepoRef, *, about: int = 0, minor: bool = False
    ) -> AsyncGenerator[Repository, None]:
        """Open the repository `ref` with its own pool of connections, for the length of the block.

        The first call also fetches the App's identity. When the hour's writes are spent, a notice
        goes to the issue `about`. `minor`: nothing here is urgent; it leaves writes for others.

        Raises:
            NotInstalled: the App is not installed there.
            RateLimited: GitHub wants no calls of the installation for a while.
            PermissionMissing: in place of a `Forbidden` that leaves the block, where the
                installation lacks the permission for it.
        """
        async with AsyncExitStack() as stack:
            writes = None
            if self.open_writes is not None:
                writes = await stack.enter_async_context(self.open_writes(ref.installation))
                await check_block(writes)
            client = await stack.enter_async_context(self._open_client())
            client.on_limited = writes.block if writes else None
            credential = self._find_credential(ref.installation, ref.id, PERMISSIONS)
            await credential.get_token()
            identity = await self._load_identity(client, credential)
            reading = self._find_credential(ref.installation, DEFAULTS_REPOSITORY, READ_PERMISSIONS)
            defaults = RepositoryApi(client, reading, ref.owner, DEFAULTS_REPOSITORY)
            api = RepositoryApi(
                client, credential, ref.owner, ref.name,
                writes=writes, about=about, share=MINOR_SHARE if minor else 1,
            )  # fmt: skip
            jobs = self._find_credential(ref.installation, ref.id, ACTIONS_PERMISSIONS)
            actions = RepositoryApi(client, jobs, ref.owner, ref.name, writes=writes)
            try:
                yield Repository(api, ref, identity, Actions(actions), defaults=defaults)
            except Forbidden as error:
                raise await self._explain(client, ref, error) from error

    async def _explain(self, client: GitHubClient, ref: RepoRef, error: Forbidden) -> Forbidden:
        """The same refusal, or `PermissionMissing` if the installation lacks what the call needs.

        GitHub gives one answer, "Resource not accessible by integration", to both.
        """
        if type(error) is not Forbidden:
            return error
        try:
            facts = await load_installation(client, self._app_credential(), ref.installation)
        except GitHubError:
            return error
        accepted = _read_accepted(error.accepted)
        if not all(find_missing(one, facts.permissions) for one in accepted):
            return error
        return explain_refusal(error, accepted[0], facts)

    async def list_repositories(self) -> AsyncIterator[RepoRef]:
        """Every repository on which the App is installed, without suspended installations."""
        async with self._open_client() as client:
            async for installation in self._list_installations(client):
                if installation.suspended_at is None:
                    async for ref in self._list_installation(client, installation.id):
                        yield ref

    async def list_installations(self) -> list[InstallationFacts]:
        async with self._open_client() as client:
            return [one async for one in self._list_installations(client)]

    async def _list_installations(self, client: GitHubClient) -> AsyncIterator[InstallationFacts]:
        path = api_path("app", "installations")
        async for item in self._lists.read(client, path, self._app_credential()):
            yield InstallationFacts.model_validate(item)

    async def find_incomplete(self, installation: int = 0) -> list[str]:
        """A sentence on each installation, or on this one, that lacks what the App has.

        A permission that is added later holds only where the owner accepts it:
        https://docs.github.com/apps/maintaining-github-apps/modifying-a-github-app-registration
        """
        silent = not (await self.load_registration()).events
        return [
            f"{one.account} has not accepted {missing}: an owner can at {one.html_url}"
            for one in await self.list_installations()
            if one.id == (installation or one.id)
            and (missing := describe_missing(one, silent=silent))
        ]

    async def load_registration(self) -> AppFacts:
        """What GitHub knows of the App: its permissions and the events that it is sent."""
        async with self._open_client() as client:
            app = await client.send("GET", api_path("app"), self._app_credential())
        return AppFacts.model_validate(app.data)

    async def list_deliveries(self, count: int) -> list[DeliveryFacts]:
        async with self._open_client() as client:
            where = api_path("app", "hook", "deliveries")
            params = {"per_page": count}
            listed = await client.send("GET", where, self._app_credential(), params=params)
        return [DeliveryFacts.model_validate(item) for item in listed.data]

    async def find_reading_credential(self, owner: str, name: str) -> InstallationCredential | None:
        """A credential to read one repository's code and issues; None without an installation."""
        ref = await self.find_repository(owner, name)
        if ref is None:
            return None
        permissions = {**READ_PERMISSIONS, "issues": "read"}
        return self._new_credential(ref.installation, ref.id, permissions)

    async def find_repository(self, owner: str, name: str) -> RepoRef | None:
        """The repository with its installation; None without one, or while it is suspended."""
        async with self._open_client() as client:
            where = api_path("repos", owner, name)
            try:
                found = await client.send("GET", f"{where}/installation", self._app_credential())
                if found.data.get("suspended_at"):
                    return None
                installation = int(found.data["id"])
                credential = self._find_credential(installation, None, PERMISSIONS)
                return _to_ref((await client.send("GET", where, credential)).data, installation)
            except NotFound:
                return None

    async def _list_installation(
        self, client: GitHubClient, installation: int
    ) -> AsyncIterator[RepoRef]:
        credential = self._find_credential(installation, None, PERMISSIONS)
        pages = self._lists.read(
            client, api_path("installation", "repositories"), credential, items="repositories"
        )
        try:
            async for item in pages:
                yield _to_ref(item, installation)
        except GitHubUnavailable:
            raise
        except GitHubError:  # uninstalled while we were listing
            return

    async def _load_identity(
        self, client: GitHubClient, credential: InstallationCredential
    ) -> Identity:
        async with self._identity_lock:
            if self._identity is None:
                try:
                    app = await client.send("GET", api_path("app"), self._app_credential())
                except NotFound as error:
                    raise GitHubMisconfigured(
                        "GitHub rejects the App's id", status=error.status, words=error.words
                    ) from None
                login = Login(f"{app.data['slug']}[bot]")
                self._identity = Identity(
                    app=int(app.data["id"]),
                    login=login,
                    email=await self._fetch_email(client, credential, login),
                )
            return self._identity

    async def _fetch_email(
        self, client: GitHubClient, credential: InstallationCredential, login: Login
    ) -> str:
        """GitHub attributes a commit to the App by the number before its login."""
        host = "github.com" if is_github_com(self._url) else urlsplit(self._url).hostname
        try:
            user = await client.send("GET", api_path("users", login), credential)
        except NotFound:
            return f"{login}@users.noreply.{host}"
        return f"{user.data['id']}+{login}@users.noreply.{host}"

    def _app_credential(self) -> AppCredential:
        key = self._settings.read_private_key()
        if self._signer is None or self._signer.private_key != key:
            self._signer = AppCredential(self._settings.github_app_id, key)
        return self._signer

    def _open_client(self) -> GitHubClient:
        return GitHubClient(self._url, pause=self._pause, transport=self._transport)

    def _find_credential(
        self, installation: int, repository: int | str | None, permissions: Mapping[str, str]
    ) -> InstallationCredential:
        """The cached credential for this purpose: GitHub limits how many tokens are created."""
        key = (installation, repository or 0, frozenset(permissions))
        if key not in self._credentials:
            while len(self._credentials) >= 256:
                del self._credentials[next(iter(self._credentials))]
            self._credentials[key] = self._new_credential(installation, repository, permissions)
        return self._credentials[key]

    async def _block(self, installation: int, seconds: float) -> None:
        """Let nobody write to the installation: GitHub limits its tokens."""
        if self.open_writes is not None:
            async with self.open_writes(installation) as writes:
                await writes.block(seconds)

    def _new_credential(
        self,
        installation: int,
        repository: int | str | None,
        permissions: Mapping[str, str] = PERMISSIONS,
    ) -> InstallationCredential:
        async def mint_fresh() -> MintedToken:
            # Use a separate connection: the caller's may close while others still wait.
            async with self._open_client() as client:
                client.on_limited = partial(self._block, installation)
                return await mint_token(
                    client, self._app_credential(), installation, repository, permissions
                )

        return InstallationCredential(mint_fresh, self._clock)


def _to_ref(repository: Mapping[str, Any], installation: int) -> RepoRef:
    owner, name = str(repository["owner"]["login"]), str(repository["name"])
    return RepoRef(id=int(repository["id"]), owner=owner, name=name, installation=installation)
