"""A running hub with `acme/shop`, and a git client without our configuration."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from capuchin_demo.hub.state import Repo
from capuchin_demo.hub.tokens import AppIdentity, generate_app
from tests.support.github.hub import LocalHub


@pytest.fixture(scope="session")
def app() -> AppIdentity:
    return generate_app()


@pytest.fixture
async def hub(app: AppIdentity, tmp_path: Path) -> AsyncGenerator[LocalHub, None]:
    one = LocalHub(tmp_path / "hub", "s3cret", app)
    async with one.serve():
        yield one
    assert one.unexpected == []


@pytest.fixture
def repo(hub: LocalHub) -> Repo:
    one = hub.add_repo("acme/shop", {"shop.py": "def total(a, b):\n    return a - b\n"})
    one.grant("alice", "write")
    one.grant("bob", "read")
    return one
