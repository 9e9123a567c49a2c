"""A client of the hub's REST API, as the App's installation."""

import time
from dataclasses import dataclass
from typing import Any

import httpx
import jwt

from capuchin_demo.hub.state import Repo
from tests.contracts.github.contract import ContractLog
from tests.support.github.hub import LocalHub

FILES = {
    "shop.py": "def total(a, b):\n    return a - b\n",
    "src/deep/x y#?.md": "odd name\n",
    "README.md": "# Shop\n",
}


@dataclass
class HubApi:
    """The hub under test and an HTTP client that speaks to it as the App's installation."""

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
        """One REST call; `path` as in GitHub's documentation, `~` for the repository."""
        address = f"{self.hub.url}/api/v3{path.replace('~', '/repos/acme/shop', 1)}"
        headers = {"authorization": f"Bearer {token or self.token}", "accept": accept}
        return await self.http.request(method, address, json=body, params=query, headers=headers)

    def app_jwt(self, *, issuer: str = "", issued: int = -60, expires: int = 540) -> str:
        """The App's JWT, good unless told otherwise. Seconds from now."""
        now, app = int(time.time()), self.hub.app
        claims = {"iat": now + issued, "exp": now + expires, "iss": issuer or str(app.app_id)}
        return jwt.encode(claims, app.private_key_pem, algorithm="RS256")

    async def new_token(self, **asked: Any) -> httpx.Response:
        """Asks for an installation token with the App's JWT."""
        assert self.repo.installation is not None
        path = f"/app/installations/{self.repo.installation.id}/access_tokens"
        return await self.call("POST", path, asked, token=self.app_jwt())


def create_token(hub: LocalHub, repo: Repo) -> str:
    """An installation token without the detour by a JWT, which costs 30 ms."""
    one = repo.installation
    assert one is not None
    return hub.tokens.create_for_installation(one, hub.bot, None, dict(one.permissions)).value
