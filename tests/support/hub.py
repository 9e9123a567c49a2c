"""A GitHub on a real socket, for every test that asks for one."""

import socket
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from bot.data.run import RepoRef
from bot.settings import Settings, Timings
from capuchin_demo.environment import find_free_port
from capuchin_demo.hub.state import AppInstallation, Repo
from capuchin_demo.hub.tokens import AppIdentity, generate_app
from tests.contracts.github.contract import ContractLog
from tests.support.github.hub import LocalHub

SECRET = "a webhook's secret"


@pytest.fixture(scope="session")
def app_identity() -> AppIdentity:
    return generate_app()


@pytest.fixture(scope="session")
def hub_port() -> Generator[int]:
    """The port of every hub of this process, held while no test has one: images belong to the App
    of an address, so that a test finds what those before it have built."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", port := find_free_port()))
        yield port


@pytest.fixture
async def hub(tmp_path: Path, app_identity: AppIdentity, hub_port: int) -> AsyncGenerator[LocalHub]:
    """Ends by proving that all that was said on both sides is as GitHub's documents have it."""
    hub = LocalHub(tmp_path / "hub", SECRET, app_identity)
    log = ContractLog()
    hub.listen(log)
    async with hub.serve(hub_port):
        yield hub
    log.check(hub.deliveries)
    assert log.problems == []
    assert hub.unexpected == []


def settings_for(hub: LocalHub, **fields: object) -> Settings:
    """Settings of a bot that belongs to `hub`; `fields` are those of `Settings` and `Timings`."""
    # Tests move the clock, and workers by hand: few want to hear that no worker lives.
    timings = {
        "status_seconds": 0,
        "no_worker_seconds": 1e9,
        "reverify_seconds": 0,  # else `settle` waits for it
        "minute_writes": 100_000,  # nor do tests wait for a minute to end
        **fields,
    }
    return Settings.model_validate(
        {
            "github_url": hub.url,
            "github_app_id": str(hub.app.app_id),
            "github_private_key": hub.app.private_key_pem,
            "webhook_secret": SECRET,
            "timings": {n: v for n, v in timings.items() if n in Timings.model_fields},
            **{n: v for n, v in fields.items() if n not in Timings.model_fields},
        }
    )


def installation_of(repo: Repo) -> AppInstallation:
    assert repo.installation is not None
    return repo.installation


def ref_of(repo: Repo) -> RepoRef:
    """The repository as a webhook names it."""
    installation = repo.installation.id if repo.installation else 0
    return RepoRef(id=repo.id, owner=repo.owner.login, name=repo.name, installation=installation)
