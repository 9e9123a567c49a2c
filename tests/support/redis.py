"""A real Redis for the tests: one server a session, one key prefix a test."""

import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

import pytest
from redis import Redis as SyncRedis
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError

from capuchin_demo.environment import find_free_port
from tests.support.serving import wait_for_port, wait_until

DISCONNECT_SECONDS: Final = 120
"""What Redis may take to notice that a socket was closed, on a machine that is busy."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--redis-server", default="redis-server", help="run this Redis or kin of it")


def pytest_configure(config: pytest.Config) -> None:
    RedisServer.program = str(config.getoption("--redis-server"))


class RedisServer:
    """A redis-server process that can be stopped, frozen and started again on its port."""

    program = "redis-server"

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.port = find_free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str, loaded: bool = True) -> None:
        """Returns when it answers: with `loaded`, when it has loaded its data."""
        durable = "yes" if self._durable else "no"
        self._process = subprocess.Popen(
            [
                self.program,
                *("--port", str(self.port), "--bind", "127.0.0.1", "--save", "86400 1000000"),
                *("--appendonly", durable, "--appendfsync", "always"),
                *options,
            ],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
        )
        wait_for_port(self.port)
        if loaded:
            with SyncRedis.from_url(self.url) as client:
                wait_until(
                    cast(Any, client).ping, BusyLoadingError, what="redis-server does not load"
                )

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def clients_since(self, last: int) -> list[Any]:
        """Who has connected after the client whose ID is `last`, and is connected still."""
        with SyncRedis.from_url(self.url) as client:
            ours = int(cast(int, client.client_id()))
            clients = cast(list[dict[str, Any]], client.client_list())
        return [each for each in clients if last < int(each["id"]) != ours]

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process
        self._process.send_signal(signal.SIGCONT)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    """The session's Redis. Do not stop it: make your own `RedisServer` for that."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def check_connections_closed(request: pytest.FixtureRequest) -> Generator[None]:
    """A test's connections to the session's Redis are closed at its end: not by the collector."""
    if "redis_server" not in request.fixturenames:
        yield
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    with SyncRedis.from_url(server.url) as client:
        last = int(cast(int, client.client_id()))
    yield
    deadline = time.monotonic() + DISCONNECT_SECONDS
    while left := server.clients_since(last):
        assert time.monotonic() < deadline, f"nobody closed these connections: {left}"
        time.sleep(0.01)


@pytest.fixture
def own_redis_server(tmp_path: Path) -> Generator[RedisServer]:
    """A Redis for one test, which may stop it and will find its data again."""
    server = RedisServer(tmp_path, durable=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_prefix() -> str:
    return f"test-{uuid4().hex[:8]}:"


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncGenerator[Redis]:
    async with Redis.from_url(redis_server.url) as client:
        yield client


@pytest.fixture
def check_keys_declared(
    redis_server: RedisServer, check_connections_closed: None
) -> Generator[None]:
    """Scripts use the keys that they were given and no others: Dragonfly refuses all others."""
    with SyncRedis.from_url(redis_server.url) as client, client.monitor() as monitor:
        yield
        client.echo("the end")
        declared: list[str] = []
        for told in cast("Generator[dict[str, Any]]", monitor.listen()):
            words: list[str] = told["command"].split(" ")
            if words == ["ECHO", "the", "end"]:
                break
            if words[0] == "EVALSHA":
                declared = words[3 : 3 + int(words[2])]
            elif told["client_type"] == "lua" and words != ["TIME"]:
                assert words[1] in declared, told["command"]
