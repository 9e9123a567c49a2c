"""The proxy that is a build's way out."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox.guest.network.destinations import Destinations
from sandbox.guest.network.holder import listen
from sandbox.guest.network.proxy import Proxy, Request


def assert_one_request(head: bytes) -> None:
    """Whatever is accepted is one request line, and headers up to the only empty line."""
    try:
        request = Request.read(head)
    except ValueError:
        return
    for sent in (request.to_host(), request.to_parent("8.8.8.8", "Proxy-Authorization: Basic x")):
        first, *headers = re.split(rb"[\r\n\x0b\x0c\x85]+", sent.removesuffix(b"\r\n\r\n"))
        assert not sent or sent.endswith(b"\r\n\r\n")
        assert not sent or len(first.split()) == 3
        assert all(re.match(rb"[A-Za-z-]+:", header) for header in headers)


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """The port of a server that sends back what it got."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(1000))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


async def ask(head: str, *permitted: str, then: bytes = b"", parent: str = "") -> bytes:
    """What the proxy answers to `head`; `then` is sent through a tunnel."""
    listener = listen(0)
    listener.setblocking(False)
    serving = asyncio.create_task(Proxy(Destinations(permitted), parent).serve(listener))
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(head.replace("\n", "\r\n").encode())
    answer = await reader.readuntil(b"\r\n\r\n") if then else b""
    writer.write(then)
    answer += await asyncio.wait_for(reader.read(), 120)
    writer.close()
    await writer.wait_closed()
    serving.cancel()
    await asyncio.wait([serving])
    return answer


async def test_a_tunnel_leads_to_a_permitted_host(echo: int) -> None:
    head = f"CONNECT localhost:{echo} HTTP/1.1\n\n"
    answer = await ask(head, f"localhost:{echo}", then=b"words")
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nwords"


async def test_a_request_goes_on_without_what_is_the_proxys(echo: int) -> None:
    url = f"http://localhost:{echo}/a?b=c"
    head = f"GET {url} HTTP/1.1\nHost: other\nProxy-Connection: keep-alive\nAccept: x\n\n"
    answer = await ask(head, "localhost")
    lines = ["GET /a?b=c HTTP/1.1", f"Host: localhost:{echo}", "Connection: close", "Accept: x"]
    assert answer.decode().split("\r\n")[:-2] == lines


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("CONNECT 169.254.169.254:80 HTTP/1.1\n\n", "403 169.254.169.254 is private: builds"),
        ("GET http://localhost/ HTTP/1.1\n\n", "403 localhost is private"),
        ("CONNECT [::ffff:7f00:1]:80 HTTP/1.1\n\n", "403 ::ffff:7f00:1 is private"),
        ("CONNECT nowhere HTTP/1.1\n\n", "400 this proxy"),
        ("GET / HTTP/1.1\n\n", "400 this proxy"),
        ("GET file:///etc/passwd HTTP/1.1\n\n", "400 this proxy"),
        ("CONNECT a:99999 HTTP/1.1\n\n", "400 this proxy"),
        ("\n\n", "400 this proxy"),
        ("GET\thttp://10.0.0.5/\tHTTP/1.1\vHost:x http://8.8.8.8/ HTTP/1.1\n\n", "400 this proxy"),
        ("GET http://8.8.8.8/ HTTP/1.1\vGET\n\n", "400 this proxy"),
        ("GET http://8.8.8.8/ HTTP/1.1\nA\vB: c\n\n", "400 this proxy"),
        ("GET http://8.8.8.8/ HTTP/1.1\nA: b\0\n\n", "400 this proxy"),
        ("GET http://8.8.8.8/ HTTP/1.1\nHOST : b\n\n", "400 this proxy"),
        ("GET http://8.8.8.8/ HTTP/1.1\nA: b\n folded: c\n\n", "400 this proxy"),
        (
            "PUT http://8.8.8.8/ HTTP/1.1\nContent-Length: 5\nTransfer-Encoding: chunked\n\n",
            "400 this proxy",
        ),
        ("PUT http://8.8.8.8/ HTTP/1.1\nContent-Length: +5\n\n", "400 this proxy"),
        (f"GET http://{'a' * 70_000}/ HTTP/1.1\n\n", "400 this proxy"),
        (f"CONNECT {'a' * 300}:80 HTTP/1.1\n\n", "502 "),
    ],
)
async def test_the_rest_is_refused_with_the_reason(head: str, status: str) -> None:
    assert (await ask(head)).decode().startswith(f"HTTP/1.1 {status}")


def test_a_header_cannot_forge_the_host() -> None:
    request = Request.read(b"GET http://u:p@a.org:81/x HTTP/1.0\r\nHOST: b\r\n\r\n")
    assert request.to_host() == b"GET /x HTTP/1.1\r\nHost: a.org:81\r\nConnection: close\r\n\r\n"


PARTS = b"GET|PUT|CONNECT|http://8.8.8.8/|8.8.8.8:443|HTTP/1.1|A:b|:|Content-Length:3"
WORDS = st.sampled_from([*PARTS.split(b"|"), *map(bytes, zip(b" \t\n\r\x0b\x85\0")), b"\r\n"])


@given(st.lists(st.one_of(WORDS, st.binary(max_size=3)), max_size=30).map(b"".join))
@example(b"GET\thttp://10.0.0.5/\tHTTP/1.1\nHost:x\n\nGET http://8.8.8.8/ HTTP/1.1")
@example(b"GET http://8.8.8.8/ HTTP/1.1\nHost:x\n\nGET http://10.0.0.5/ HTTP/1.1")
def test_a_parent_that_reads_leniently_sees_one_request(head: bytes) -> None:
    assert_one_request(head + b"\r\n\r\n")


async def test_all_goes_through_the_operators_own_proxy(echo: int) -> None:
    parent = f"http://me:p%40ss@localhost:{echo}"
    permitted = (f"localhost:{echo}", ".invalid")
    login = "Proxy-Authorization: Basic bWU6cEBzcw=="
    for head, first in (
        ("CONNECT nowhere.invalid:443 HTTP/1.1\nA: b\n\n", "CONNECT nowhere.invalid:443 HTTP/1.1"),
        (
            "GET http://nowhere.invalid/x HTTP/1.1\nA: b\n\n",
            "GET http://nowhere.invalid/x HTTP/1.1",
        ),
    ):
        lines = (await ask(head, *permitted, parent=parent)).decode().split("\r\n")
        assert lines[0] == first
        assert login in lines
        assert "A: b" in lines
    refused = await ask("CONNECT 10.0.0.1:443 HTTP/1.1\n\n", *permitted, parent=parent)
    assert b"403 10.0.0.1 is private" in refused


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        ("nowhere.example:443", "HTTP/1.1 403 nowhere.example is unknown"),
        ("8.8.8.8:22", "HTTP/1.1 403 8.8.8.8 is open at 80 and 443 only"),
        ("u:p@8.8.8.8:443", "CONNECT 8.8.8.8:443 HTTP/1.1"),
        ("rebinds.example:443", "CONNECT 8.8.4.4:443 HTTP/1.1"),
        ("[2606:4700::1]:443", "CONNECT [2606:4700::1]:443 HTTP/1.1"),
    ],
)
async def test_the_operators_proxy_gets_checked_addresses_and_no_name_of_a_build(
    echo: int, monkeypatch: pytest.MonkeyPatch, target: str, answer: str
) -> None:
    known = socket.getaddrinfo

    def resolve(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        if host.endswith(".example") and not host.startswith("rebinds"):
            raise socket.gaierror
        return known({"rebinds.example": "8.8.4.4"}.get(host, host), port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    head = f"CONNECT {target} HTTP/1.1\nHost: x\n\n"
    said = (await ask(head, f"localhost:{echo}", parent=f"http://localhost:{echo}")).decode()
    assert said.startswith(answer)
    assert "rebinds" not in said
    assert "Host: x" not in said


async def test_nothing_follows_into_a_parent_that_refuses_a_tunnel() -> None:
    got: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        writer.write_eof()
        got.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    parent = f"http://localhost:{server.sockets[0].getsockname()[1]}"
    head = "CONNECT 8.8.8.8:443 HTTP/1.1\n\nGET http://10.0.0.5/ HTTP/1.1\n\n"
    answer = await ask(head, urlsplit(parent).netloc, parent=parent)
    assert (answer[-2:], got) == (b"no", [b""])
    server.close()
    await server.wait_closed()
