"""A running hub with one repository, a client for it, and a contract log of all exchanges."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from capuchin_demo.hub.tokens import AppIdentity, generate_app
from tests.contracts.github.contract import ContractLog
from tests.contracts.github.hub_api import FILES, HubApi, create_token
from tests.support.github.hub import LocalHub


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
async def world(hub: LocalHub) -> AsyncGenerator[HubApi, None]:
    """`acme/shop` with alice (write), bob (read), carol (none). Checks the contract at the end."""
    repo = hub.add_repo("acme/shop", FILES)
    for login, role in (("alice", "write"), ("bob", "read"), ("carol", "none")):
        hub.add_user(login)
        if role != "none":
            repo.grant(login, role)
    log = ContractLog()
    hub.listen(log)
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=120) as http:
        yield HubApi(hub, repo, log, http, create_token(hub, repo))
    log.check(hub.deliveries)
    assert log.problems == []
