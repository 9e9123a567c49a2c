"""A running hub with one repository, a client for it, and a contract log of all exchanges."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from bot.localhub import AppIdentity, LocalHub, Repo, generate_app
from tests.contracts.github.contract_log import ContractLog

FILES = {
    "shop.py": "def total(a, b):\n    return a - b\n",
    "src/deep/x y#?.md": "odd name\n",
    "README.md": "# Shop\n",
}


@dataclass
class World:
    """The hub under test and an HTTP client that authenticates as the App's installation."""

    hub: LocalHub
    repo: Repo
    log: ContractLog
    http: httpx.AsyncClient
    token: str

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        /,
        *,
        token: str | None = None,
        accept: str = "application/vnd.github+json",
        **query: str | int,
    ) -> httpx.Response:
        """Send one REST call; `path` as in GitHub's documentation, `~` for the repository."""
        address = f"{self.hub.url}/api/v3{path.replace('~', '/repos/acme/shop', 1)}"
        headers = {"authorization": f"Bearer {token or self.token}", "accept": accept}
        return await self.http.request(method, address, json=body, params=query, headers=headers)

    def app_jwt(self, *, issuer: str = "", issued: int = -60, expires: int = 540) -> str:
        """A JWT of the App, valid by default. Times are in seconds from now."""
        now, app = int(time.time()), self.hub.app
        claims = {"iat": now + issued, "exp": now + expires, "iss": issuer or str(app.app_id)}
        return jwt.encode(claims, app.private_key_pem, algorithm="RS256")

    async def new_token(self, **asked: Any) -> httpx.Response:
        """Create an installation token with the App's JWT."""
        assert self.repo.installation is not None
        path = f"/app/installations/{self.repo.installation.id}/access_tokens"
        return await self.call("POST", path, asked, token=self.app_jwt())


def granted(hub: LocalHub, repo: Repo) -> str:
    """Create an installation token without a JWT, which would cost 30 ms."""
    one = repo.installation
    assert one is not None
    return hub.tokens.create_for_installation(one, hub.bot, None, dict(one.permissions)).value


@pytest.fixture(scope="session")
def app() -> AppIdentity:
    """One key pair for all tests, because creating one takes long."""
    return generate_app(app_id=7, slug="capuchin")


@pytest.fixture
async def hub(app: AppIdentity, tmp_path: Path) -> AsyncGenerator[LocalHub, None]:
    """A hub on a free port. A test of a 501 response must empty `unexpected`."""
    one = LocalHub(tmp_path / "hub", "s3cret", app)
    async with one.serve():
        yield one
    assert one.unexpected == []
    assert one.faults.pending == []


@pytest.fixture
async def world(hub: LocalHub) -> AsyncGenerator[World, None]:
    """`acme/shop` with alice (write), bob (read), carol (none). Checks the contract at the end."""
    repo = hub.add_repo("acme/shop", FILES)
    for login, role in (("alice", "write"), ("bob", "read"), ("carol", "none")):
        hub.add_user(login)
        if role != "none":
            repo.grant(login, role)
    log = ContractLog()
    hub.on_exchange = log
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:
        yield World(hub, repo, log, http, granted(hub, repo))
    log.check(hub.deliveries)
    assert log.problems == []
