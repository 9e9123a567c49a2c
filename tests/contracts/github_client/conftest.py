"""A hub on a real socket, and our client pointed at it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from bot.github.app import GitHubApp
from bot.github.repository import Repository
from bot.localhub import AppIdentity, LocalHub, Repo, generate_app
from bot.settings import Settings
from bot.types import RepoRef

SLUG = "capuchin"


class Clock:
    """Seconds since the epoch that a test can move."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        import time

        return time.time() + self.ahead


@pytest.fixture(scope="session")
def identity() -> AppIdentity:
    return generate_app(slug=SLUG)


@pytest.fixture
async def hub(tmp_path: Path, identity: AppIdentity) -> AsyncGenerator[LocalHub, None]:
    hub = LocalHub(tmp_path / "hub", "secret", identity)
    async with hub.serve():
        yield hub
    assert hub.unexpected == []


@pytest.fixture
def shop(hub: LocalHub) -> Repo:
    repo = hub.add_repo("acme/shop", {"shop.py": "def total(a, b):\n    return a - b\n"})
    repo.grant("alice", "write")
    return repo


def settings_for(hub: LocalHub, **fields: object) -> Settings:
    return Settings.model_validate(
        {
            "github_url": hub.url,
            "github_app_id": str(hub.app.app_id),
            "github_private_key": hub.app.private_key_pem,
            **fields,
        }
    )


def ref_of(repo: Repo) -> RepoRef:
    installation = repo.installation.id if repo.installation else 0
    return RepoRef(owner=repo.owner.login, name=repo.name, installation=installation)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(hub: LocalHub, clock: Clock) -> GitHubApp:
    return GitHubApp(settings_for(hub), clock=clock, pause=0.001)


@pytest.fixture
async def repo(app: GitHubApp, shop: Repo) -> AsyncGenerator[Repository, None]:
    async with app.repository(ref_of(shop)) as repo:
        yield repo
