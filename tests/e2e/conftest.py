from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.settings import Settings
from capuchin_demo.recorded.recording import Recording
from capuchin_demo.recorded.server import RecordedServer
from tests.e2e import shop
from tests.e2e.cli.local_fix import LocalFix
from tests.e2e.harness import BotHarness, StartBot
from tests.support.certificates import host_certificates
from tests.support.docker import daemon
from tests.support.github.hub import LocalHub
from tests.support.hub import settings_for
from tests.support.patience import wait_patiently
from tests.support.redis import RedisServer

__all__ = ["daemon", "wait_patiently"]

Fields = dict[str, object]


@pytest.fixture
def settings_fields(redis_server: RedisServer, redis_prefix: str, tmp_path: Path) -> Fields:
    """The settings that every bot of a test has."""
    return {
        "redis_url": redis_server.url,
        "redis_prefix": redis_prefix,
        "data_dir": str(tmp_path / "data"),
        # Tests run beside each other: a second container of a run would cost more than it brings.
        "sandbox_parallel": 1,
    }


@pytest.fixture
def start_recorded_bot(hub: LocalHub, redis: Redis, settings_fields: Fields) -> StartBot:
    """Starts the bot with a recording and settings of the test's own."""

    def start(recording: Recording | None = None, **fields: object) -> object:
        certificates = host_certificates()
        given = {"build_ca_bundle": certificates} if certificates else {}
        fields = {**settings_fields, **given, **fields}
        return BotHarness.start(hub, redis, fields, recording=recording or shop.answers())

    return start  # pyright: ignore[reportReturnType] - narrowed by the alias


@pytest.fixture
async def recorded_bot(start_recorded_bot: StartBot) -> AsyncGenerator[BotHarness]:
    """The bot with recorded answers that find the bug of `tests/e2e/shop.py`, and with as many
    executions at once as by default."""
    parallel = Settings.model_fields["sandbox_parallel"].default
    async with start_recorded_bot(sandbox_parallel=parallel) as bot:
        yield bot


@pytest.fixture
async def one_sample_bot(start_recorded_bot: StartBot) -> AsyncGenerator[BotHarness]:
    """As `recorded_bot`, where a test is not about the choice: for `shop.ONE_SAMPLE`."""
    async with start_recorded_bot(shop.answers(shop.RIGHT_AT_ONCE)) as bot:
        yield bot


@pytest.fixture
def start_bot(hub: LocalHub, redis: Redis, settings_fields: Fields) -> StartBot:
    """Starts the bot with a `FakeRunner` and settings of the test's own."""

    def start(**fields: object) -> object:
        return BotHarness.start(hub, redis, {**settings_fields, **fields})

    return start  # pyright: ignore[reportReturnType] - narrowed by the alias


@pytest.fixture
async def bot(request: pytest.FixtureRequest, start_bot: StartBot) -> AsyncGenerator[BotHarness]:
    """The bot with a `FakeRunner` in place of the pipeline, and the settings of `mark.settings`."""
    marked = request.node.get_closest_marker("settings")
    async with start_bot(**marked.kwargs if marked else {}) as bot:
        yield bot


@pytest.fixture
def manual_bot(hub: LocalHub, redis: Redis, settings_fields: Fields) -> BotHarness:
    """The bot without a server or a worker: the test leases the runs and works on each."""
    return BotHarness(hub, redis, settings_for(hub, **settings_fields))


@pytest.fixture
async def local_fix(tmp_path: Path) -> AsyncGenerator[LocalFix]:
    """`capuchin fix` with recorded answers that find the bug of `tests/e2e/shop.py`."""
    llm = RecordedServer(shop.answers())
    async with llm.serve() as url:
        yield LocalFix(tmp_path, llm, url)
    assert llm.unexpected == []
