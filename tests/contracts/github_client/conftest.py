"""A hub on a real socket, and our client for it."""

from collections.abc import AsyncGenerator

import pytest

from bot.github.app import GitHubApp
from bot.github.repository import Repository
from capuchin_demo.hub.state import Repo
from tests.support.clock import MovableClock
from tests.support.github.hub import LocalHub
from tests.support.hub import ref_of, settings_for


@pytest.fixture
def shop(hub: LocalHub) -> Repo:
    repo = hub.add_repo("acme/shop", {"shop.py": "def total(a, b):\n    return a - b\n"})
    repo.grant("alice", "write")
    return repo


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def app(hub: LocalHub, clock: MovableClock) -> GitHubApp:
    return GitHubApp(settings_for(hub), clock=clock, pause=0.001)


@pytest.fixture
async def repo(app: GitHubApp, shop: Repo) -> AsyncGenerator[Repository, None]:
    async with app.open_repository(ref_of(shop)) as repo:
        yield repo
