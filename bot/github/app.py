"""The GitHub App: its identity, its installations, and access to each repository."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx

from bot.data.github_facts import AppFacts, DeliveryFacts, Identity, InstallationFacts
from bot.data.run import Login, RepoRef
from bot.errors import Forbidden, GitHubError, GitHubMisconfigured, GitHubUnavailable, NotFound
from bot.github.actions import Actions
from bot.github.credentials import (
    ACTIONS_PERMISSIONS,
    LEVELS,
    LOOK_PERMISSIONS,
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
from bot.github.http import MAX_PAGES, GitHubAuth, GitHubClient, KeptPages, is_github_com
from bot.github.repository import DEFAULTS_REPOSITORY, Repository
from bot.github.repository_api import (
    MINOR_SHARE,
    OpenWriteBudget,
    RepositoryApi,
    WriteBudget,
    check_block,
)
from bot.settings import GitHubSettings

Client = TypeVar("Client", bound=GitHubClient)
MAX_CREDENTIALS: Final = 10_000
CredentialKey = tuple[int, int | str, frozenset[str]]
OpenApi = Callable[[str, int | str | None, Mapping[str, str]], Awaitable[RepositoryApi]]


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
        self._lists: KeptPages = {}
        self._identity: Identity | None = None
        self._identity_lock = asyncio.Lock()
        self.open_writes: OpenWriteBudget | None = None
        """Opens the budget of writes of an installation; without it, writes have no limit."""

    @asynccontextmanager
    async def open_repository(
        self, ref: RepoRef, *, about: int = 0, minor: bool = False, paced: bool = False
    ) -> AsyncGenerator[Repository, None]:
        """Open the repository `ref` with its own pool of connections, for the length of the block.

        The first call also fetches the App's identity. When the hour's writes are spent, a notice
        goes to the issue `about`. `minor`: nothing here is urgent; it leaves writes for others.
        `paced`: what is written here comes at a pace of its own, and is not counted.

        Raises:
            NotInstalled: the App is not installed there.
            RateLimited: GitHub wants no calls of the installation for a while.
            PermissionMissing: in place of a `Forbidden` that leaves the block, where the
                installation lacks the permission for it.
        """
        async with self._open_apis(ref) as (open_api, writes):
            api = await open_api(ref.name, ref.id, PERMISSIONS)
            api.writes, api.about = None if paced else writes, about
            api.share = MINOR_SHARE if minor else 1
            await api.credential.get_token()
            identity = await self._load_identity(api)

            async def open_sibling(name: str) -> RepositoryApi:
                return await open_api(name, name, READ_PERMISSIONS)

            defaults = await open_sibling(DEFAULTS_REPOSITORY)
            jobs = await open_api(ref.name, ref.id, ACTIONS_PERMISSIONS)
            jobs.writes = writes
            try:
                yield Repository(
                    api, ref, identity, Actions(jobs), defaults=defaults, open_sibling=open_sibling
                )
            except Forbidden as error:
                raise await self._explain(ref, error) from error

    @asynccontextmanager
    async def look_into(self, ref: RepoRef) -> AsyncGenerator[Repository, None]:
        """Open the repository to read its issues and pull requests alone.

        All repositories of an installation are read with one token: GitHub's ETags are good for
        the token that asked, and beyond some hundred repositories, one for each would be new at
        every look.

        Raises: as `open_repository`.
        """
        async with self._open_apis(ref) as (open_api, _):
            api = await open_api(ref.name, None, LOOK_PERMISSIONS)
            yield Repository(api, ref, await self._load_identity(api), Actions(api))

    @asynccontextmanager
    async def _open_apis(self, ref: RepoRef) -> AsyncGenerator[tuple[OpenApi, WriteBudget | None]]:
        """What opens clients of repositories beside `ref`, by name, token and permissions; and the
        budget of writes there. Raises as `open_repository`."""
        async with AsyncExitStack() as stack:
            writes = None
            if self.open_writes is not None:
                writes = await stack.enter_async_context(self.open_writes(ref.installation))
                await check_block(writes)

            async def open_api(
                name: str, key: int | str | None, allowed: Mapping[str, str]
            ) -> RepositoryApi:
                credential = self._find_credential(ref.installation, key, allowed)
                api = self._open(RepositoryApi, credential, "repos", ref.owner, name)
                api.credential = credential
                api.on_limited = writes.block if writes else None
                return await stack.enter_async_context(api)

            yield open_api, writes

    async def _explain(self, ref: RepoRef, error: Forbidden) -> Forbidden:
        """The same refusal, or `PermissionMissing` if the installation lacks what the call needs.

        GitHub gives one answer, "Resource not accessible by integration", to both.
        """
        if type(error) is not Forbidden:
            return error
        try:
            async with self._open_app() as app:
                facts = await load_installation(app, ref.installation)
        except GitHubError:
            return error
        accepted = _read_accepted(error.accepted)
        if not all(find_missing(one, facts.permissions) for one in accepted):
            return error
        return explain_refusal(error, accepted[0], facts)

    async def list_repositories(self) -> AsyncIterator[RepoRef]:
        """Every repository on which the App is installed, without suspended installations."""
        for installation in await self.list_installations():
            if installation.suspended_at is None:
                for ref in await self.list_installation(installation.id):
                    yield ref

    async def list_installations(self) -> list[InstallationFacts]:
        async with self._open_app() as app:
            listed = app.paginate("app", "installations", limit=MAX_PAGES, kept=self._lists)
            return [InstallationFacts.model_validate(item) async for item in listed]

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
        async with self._open_app() as app:
            return AppFacts.model_validate(await app.get("app"))

    async def list_deliveries(self, count: int) -> list[DeliveryFacts]:
        async with self._open_app() as app:
            listed = await app.get("app", "hook", "deliveries", per_page=count)
        return [DeliveryFacts.model_validate(item) for item in listed]

    async def find_reading_credential(self, owner: str, name: str) -> InstallationCredential | None:
        """A credential to read one repository's code and issues; None without an installation."""
        ref = await self.find_repository(owner, name)
        if ref is None:
            return None
        permissions = {**READ_PERMISSIONS, "issues": "read"}
        return self._new_credential(ref.installation, ref.id, permissions)

    async def find_repository(self, owner: str, name: str) -> RepoRef | None:
        """The repository with its installation; None without one, or while it is suspended."""
        where = ("repos", owner, name)
        try:
            async with self._open_app() as app:
                found = await app.get(*where, "installation")
            if found.get("suspended_at"):
                return None
            installation = int(found["id"])
            async with self._open_installation(installation) as client:
                return _to_ref(await client.get(*where), installation)
        except NotFound:
            return None

    async def list_installation(self, installation: int) -> list[RepoRef]:
        """The repositories of an installation, those first to which somebody pushed last."""
        where = ("installation", "repositories")
        try:
            async with self._open_installation(installation) as client:
                listed = client.paginate(
                    *where, items="repositories", limit=MAX_PAGES, kept=self._lists
                )
                items = [item async for item in listed]
        except GitHubUnavailable:
            raise
        except GitHubError:  # uninstalled while we were listing
            return []
        items.sort(key=lambda item: str(item.get("pushed_at") or ""), reverse=True)
        return [_to_ref(item, installation) for item in items]

    async def _load_identity(self, api: RepositoryApi) -> Identity:
        async with self._identity_lock:
            if self._identity is None:
                try:
                    async with self._open_app() as client:
                        app = await client.get("app")
                except NotFound as error:
                    raise GitHubMisconfigured(
                        "GitHub rejects the App's id", status=error.status, words=error.words
                    ) from None
                login = Login(f"{app['slug']}[bot]")
                email = await self._fetch_email(api, login)
                self._identity = Identity(app=int(app["id"]), login=login, email=email)
            return self._identity

    async def _fetch_email(self, api: RepositoryApi, login: Login) -> str:
        """GitHub attributes a commit to the App by the number before its login."""
        host = "github.com" if is_github_com(self._url) else urlsplit(self._url).hostname
        try:
            user = await api.get_user(login)
        except NotFound:
            return f"{login}@users.noreply.{host}"
        return f"{user['id']}+{login}@users.noreply.{host}"

    def _app_credential(self) -> AppCredential:
        key = self._settings.read_private_key()
        if self._signer is None or self._signer.private_key != key:
            self._signer = AppCredential(self._settings.github_app_id, key)
        return self._signer

    def _open(self, kind: type[Client], auth: GitHubAuth, *root: str) -> Client:
        return kind(self._url, auth, *root, pause=self._pause, transport=self._transport)

    def _open_app(self) -> GitHubClient:
        return self._open(GitHubClient, self._app_credential())

    def _open_installation(self, installation: int) -> GitHubClient:
        return self._open(GitHubClient, self._find_credential(installation, None, LOOK_PERMISSIONS))

    def _find_credential(
        self, installation: int, repository: int | str | None, permissions: Mapping[str, str]
    ) -> InstallationCredential:
        """The cached credential for this purpose: GitHub limits how many tokens are created."""
        key = (installation, repository or 0, frozenset(permissions))
        found = self._credentials.pop(key, None) or self._new_credential(
            installation, repository, permissions
        )
        while len(self._credentials) >= MAX_CREDENTIALS:
            del self._credentials[next(iter(self._credentials))]
        self._credentials[key] = found  # the last used is the last to go
        return found

    async def _block(self, installation: int, seconds: float) -> None:
        """Let nobody write to the installation: GitHub limits its tokens."""
        if self.open_writes is not None:
            async with self.open_writes(installation) as writes:
                await writes.block(seconds)

    def _new_credential(
        self, installation: int, repository: int | str | None, permissions: Mapping[str, str]
    ) -> InstallationCredential:
        async def mint_fresh() -> MintedToken:
            # Use a separate connection: the caller's may close while others still wait.
            async with self._open_app() as app:
                app.on_limited = partial(self._block, installation)
                return await mint_token(app, installation, repository, permissions)

        return InstallationCredential(mint_fresh, self._clock)


def _to_ref(repository: Mapping[str, Any], installation: int) -> RepoRef:
    owner, name = str(repository["owner"]["login"]), str(repository["name"])
    return RepoRef(id=int(repository["id"]), owner=owner, name=name, installation=installation)
