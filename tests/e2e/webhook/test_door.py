"""What strangers can hold of the web server: no connection for long, and no memory."""

import asyncio
import json
import logging
import re
import select
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import pytest

from bot.data.run import Login, RepoRef
from bot.server import connections as door
from bot.server.app import create_app
from bot.settings import Settings
from bot.storage.storage import Storage
from pipeline.concurrency import gather_bounded
from tests.e2e.webhook.delivery import labeled, sign

FORGED = "sha256=" + "0" * 64


@asynccontextmanager
async def serving(settings: Settings, *, stop_seconds: int = 1) -> AsyncGenerator[int]:
    """The app behind its door; the port."""
    server = door.build_server(create_app(settings), stop_seconds=stop_seconds)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await task


def head(signature: str, length: int) -> bytes:
    return (
        f"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"X-GitHub-Event: issues\r\nX-GitHub-Delivery: {uuid4()}\r\n"
        f"X-Hub-Signature-256: {signature}\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


_OPEN: list[asyncio.StreamWriter] = []
_UNREAD: list[socket.socket] = []


@pytest.fixture(autouse=True)
async def close_connections() -> AsyncGenerator[None]:
    yield
    while _UNREAD:
        _UNREAD.pop().close()
    while _OPEN:
        writer = _OPEN.pop()
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def send(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    _OPEN.append(writer)
    writer.write(data)
    with suppress(ConnectionError):
        await writer.drain()
    return reader, writer


async def read_status(reader: asyncio.StreamReader) -> bytes:
    """The status of the answer; empty where the connection ended without one."""
    try:
        async with asyncio.timeout(120):
            line = await reader.readline()
    except ConnectionError:
        return b""
    return b" ".join(line.split()[1:2])


async def deliver_honestly(port: int) -> bytes:
    number = uuid4().int >> 80
    repository = {"id": number, "name": f"r{number}", "owner": {"login": "a"}}
    body = json.dumps(labeled(repository=repository)).encode()
    reader, _ = await send(port, head(sign(body), len(body)) + body)
    return await read_status(reader)


async def test_without_a_well_formed_signature_no_body_is_waited_for(settings: Settings) -> None:
    async with serving(settings) as port:
        for signature in ("", "sha1=" + "0" * 40, "sha256=0"):
            reader, _ = await send(port, head(signature, 20_000_000))
            assert await read_status(reader) == b"401"


async def test_slow_headers_and_bodies_are_cut_off(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BODY_SECONDS", 0.5)
    async with serving(settings) as port:
        # Headers come in time, also where the machine stands still before they are read.
        monkeypatch.setattr(door, "HEADER_SECONDS", 120)
        slow, _ = await send(port, head(FORGED, 1_000) + b"{")
        reader, again = await send(port, head("", 0))
        assert await read_status(reader) == b"401"
        monkeypatch.setattr(door, "HEADER_SECONDS", 0.5)
        again.write(b"POST /web")  # a second request on the same connection
        silent, _ = await send(port, b"")
        begun, _ = await send(port, b"POST /webhook HTTP/1.1\r\nHost: x\r\n")
        assert await read_status(silent) == b""
        assert await read_status(begun) == b""
        assert await read_status(slow) == b"408"
        async with asyncio.timeout(120):
            await reader.read()


async def test_many_large_bodies_take_no_more_memory_than_there_is_for_them(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MAX_WAITING_BYTES", 2_500_000)
    async with serving(settings) as port:
        sent = [await send(port, head(FORGED, 1_200_000) + b"a" * 1_100_000) for _ in range(3)]
        answers = [asyncio.ensure_future(read_status(reader)) for reader, _ in sent]
        done, waiting = await asyncio.wait(
            answers, timeout=120, return_when=asyncio.FIRST_COMPLETED
        )
        assert len(done) == 1
        assert done.pop().result() == b"503"
        assert await deliver_honestly(port) == b"202"
        for _, writer in sent:
            writer.write(b"a" * 100_000)
        assert [await answer for answer in waiting] == [b"401", b"401"]
        reader, _ = await send(port, head(FORGED, 1_200_000) + b"a" * 1_200_000)
        assert await read_status(reader) == b"401"  # there is room again


async def test_a_full_server_lets_go_of_the_one_that_waits_longest(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MAX_CONNECTIONS", 20)
    # So that it is not this deadline that ends it.
    monkeypatch.setattr(door, "HEADER_SECONDS", 3_600)
    async with serving(settings) as port:
        silent = [await send(port, b"POST /web") for _ in range(25)]
        assert [await deliver_honestly(port) for _ in range(3)] == [b"202"] * 3
        async with asyncio.timeout(120):
            assert await read_status(silent[0][0]) == b""


async def test_a_proxy_may_keep_its_connection_for_a_minute(settings: Settings) -> None:
    async with serving(settings) as port:
        reader, writer = await send(port, head(FORGED, 2) + b"{}")
        assert await read_status(reader) == b"401"
        [kept] = [each for each in door.GuardedProtocol.waiting if each.timeout_keep_alive_task]
        timer = kept.timeout_keep_alive_task
        assert timer is not None
        assert timer.when() - asyncio.get_running_loop().time() > 60
        headers = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", headers)
        assert length is not None
        await reader.readexactly(int(length[1]))
        writer.write(head(FORGED, 2) + b"{}")
        assert await read_status(reader) == b"401"


async def test_idle_connections_do_not_keep_honest_ones_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MAX_CONNECTIONS", 20)
    async with serving(settings) as port:
        idle = [await send(port, head(FORGED, 2) + b"{}") for _ in range(20)]
        assert [await read_status(reader) for reader, _ in idle] == [b"401"] * 20
        assert [await deliver_honestly(port) for _ in range(3)] == [b"202"] * 3


async def test_slow_bodies_do_not_keep_honest_ones_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MAX_CONNECTIONS", 20)
    async with serving(settings) as port:
        slow = [await send(port, head(FORGED, 1_000) + b"{") for _ in range(20)]
        assert [await deliver_honestly(port) for _ in range(3)] == [b"202"] * 3
        assert await read_status(slow[0][0]) in (b"", b"400")


async def send_unread(port: int) -> None:
    """Open a connection that asks for more than its buffers hold, and reads nothing."""
    unread = socket.socket()
    _UNREAD.append(unread)
    unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    unread.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(unread, ("127.0.0.1", port))
    with suppress(TimeoutError, ConnectionError):  # the server does not take all of it
        async with asyncio.timeout(1):
            await loop.sock_sendall(
                unread, b"GET /runs/live.js HTTP/1.1\r\nHost: x\r\n\r\n" * 10_000
            )


async def test_clients_that_do_not_read_do_not_keep_honest_ones_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MAX_CONNECTIONS", 4)
    async with serving(settings) as port:
        await gather_bounded(4, (send_unread(port) for _ in range(4)))
        assert [await deliver_honestly(port) for _ in range(3)] == [b"202"] * 3


async def test_a_client_that_does_not_read_is_cut_off(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "READ_SECONDS", 0.2)
    async with serving(settings) as port:
        await send_unread(port)
        state = select.poll()
        state.register(_UNREAD[0], 0)
        async with asyncio.timeout(120):
            while not state.poll(0):  # a reset is an event without reading anything
                await asyncio.sleep(0.05)


async def test_answers_that_nobody_reads_take_no_more_memory_than_there_is_for_them(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MAX_UNREAD_BYTES", 1)
    monkeypatch.setattr(door, "READ_SECONDS", 3_600)
    async with serving(settings) as port:
        await gather_bounded(4, (send_unread(port) for _ in range(4)))
        async with asyncio.timeout(120):
            while len(door.GuardedProtocol.waiting) != 1:
                await asyncio.sleep(0.05)
        assert await deliver_honestly(port) == b"202"


async def test_refused_webhooks_are_counted_in_one_line(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="bot.server.connections")
    async with serving(settings) as port:
        for _ in range(30):
            reader, _ = await send(port, head("", 0))
            assert await read_status(reader) == b"401"
    lines = [line for line in caplog.messages if "Refused webhooks" in line]
    assert [line.endswith("1 × 401") for line in lines] == [True]


async def test_open_event_streams_do_not_hold_up_the_end(
    settings: Settings, storage: Storage
) -> None:
    repo = RepoRef(id=3, owner="acme", name="shop", installation=99)
    asked = await storage.runs.create(repo, 7, asked_by=Login("ann"), delivery="d")
    path = f"/runs/{asked.run_id}/events?key={settings.page_key(asked.run_id)}"
    # Much longer, the server waits for what does not end.
    async with asyncio.timeout(120), serving(settings, stop_seconds=3_600) as port:
        reader, _ = await send(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert b"event: update" in await reader.readuntil(b"data")
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        await reader.read()


def chunked(body: bytes, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n0\r\n\r\n" % (len(body), extension, body)


HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
"""What a proxy that reads the other length takes for a part of the body, or for a request."""
TWO_ENDS = {
    "both lengths": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"{}"),
    "no body in chunks": b"Content-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both, one after a tab": b"Transfer-Encoding:\tchunked\r\nContent-Length: 2\r\n\r\n"
    + chunked(b"{}"),
    "both, one on a second line": b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 2\r\n\r\n"
    + chunked(b"{}"),
    "two lengths": b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
    "a list of lengths": b"Content-Length: 2, 40\r\n\r\n{}",
    "a length with a sign": b"Content-Length: +2\r\n\r\n{}",
    "a length in hexadecimal": b"Content-Length: 0x2\r\n\r\n{}",
    "a space before the colon": b"Content-Length : 2\r\n\r\n{}",
    "an unknown encoding": b"Transfer-Encoding: xchunked\r\nContent-Length: 2\r\n\r\n{}",
    "two encodings": b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked(b"{}"),
    "encodings in two lines": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"
    + chunked(b"{}"),
    "a bare carriage return": b"X: a\rTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    "a negative chunk": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}",
    "a chunk beyond counting": b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n{}",
    "an extension without end": b"Transfer-Encoding: chunked\r\n\r\n"
    + chunked(b"{}", b";" + b"x" * 4_000_000),
}


@pytest.mark.parametrize("shape", TWO_ENDS)
async def test_a_request_with_two_ends_hides_no_other(settings: Settings, shape: str) -> None:
    """It is refused, and the connection ends: what follows is never read as a request."""
    begin = head(FORGED, 2).partition(b"Content-Length")[0]
    async with serving(settings) as port:
        reader, _ = await send(port, begin + TWO_ENDS[shape] + HIDDEN)
        answer = b""
        with suppress(ConnectionError):
            async with asyncio.timeout(120):
                answer = await reader.read()
        assert answer.count(b"HTTP/1.1 ") == answer.count(b"HTTP/1.1 4") <= 1
        assert await deliver_honestly(port) == b"202"
