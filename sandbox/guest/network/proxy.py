"""The only way out of a build: an HTTP proxy that connects to permitted destinations.

It resolves names itself, so that a build needs no resolver and has none.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import socket
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from sandbox.guest.network.destinations import Destinations, Refused

CONNECT_SECONDS = 30
CHUNK = 64 * 1024
HOST = re.compile(r"[A-Za-z0-9._-]{1,300}|[0-9a-fA-F:.]{2,60}")
REQUEST_LINE = re.compile(r"([A-Z]{1,20}) ([!-~]{1,16000}) HTTP/1\.[01]")
HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}):[ \t]*([!-~ \t]*)")
BODY = re.compile(r"(?i:content-length): \d{1,15}|(?i:transfer-encoding): (?i:chunked)")
"""RFC 9112, 3, 5 and 6: with anything else, another reader may see a second request."""


class Proxy:
    """Answers `CONNECT` and plain HTTP requests (RFC 9110, 9.3.6; RFC 9112, 3.2.2).

    `parent` is the operator's own proxy, through which all goes: `http://user:password@host:port`.
    It is asked for the addresses that were checked here, and for the names that the operator named.
    """

    def __init__(self, destinations: Destinations, parent: str = "") -> None:
        self._destinations = destinations
        self._parent = urlsplit(parent)
        self._connections = 0
        self._resolving = ThreadPoolExecutor(32)

    async def serve(self, listener: socket.socket) -> None:
        """Answer on `listener` until cancelled."""
        server = await asyncio.start_server(self.answer, sock=listener, limit=64 * 1024)
        await server.serve_forever()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a build."""
        self._connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.TimeoutError, EOFError, ValueError):
                await self._answer(reader, writer)
        finally:
            self._connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections > 256:
            return await refuse(writer, 503, "this build holds too many connections")
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            request = Request.read(head)
        except (ValueError, asyncio.LimitOverrunError):
            return await refuse(writer, 400, "this proxy understands CONNECT and http addresses")
        loop = asyncio.get_running_loop()
        try:
            connection, first = await loop.run_in_executor(
                self._resolving, lambda: self._connect(request)
            )
        except Refused as error:
            return await refuse(writer, 403, str(error))
        except OSError as error:
            return await refuse(writer, 502, f"{request.host[:200]} does not answer: {error}")
        connection.setblocking(False)
        theirs, to_them = await asyncio.open_connection(sock=connection, limit=CHUNK)
        try:
            to_them.write(first)
            if not first:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            elif request.tunnel:
                # A parent that refuses would read what follows as another request (RFC 9931).
                said = await asyncio.wait_for(theirs.readuntil(b"\r\n\r\n"), CONNECT_SECONDS)
                writer.write(said)
                if not re.match(rb"HTTP/1\.[01] 2\d\d", said):
                    return await relay(theirs, writer)
            await relay_both(relay(reader, to_them), relay(theirs, writer))
        finally:
            to_them.close()

    def _connect(self, request: Request) -> tuple[socket.socket, bytes]:
        """A connection, and what to send there first."""
        parent, seconds = self._parent, CONNECT_SECONDS
        if not parent.hostname:
            found = self._destinations.connect(request.host, request.port, seconds=seconds)
            return found, request.to_host()
        address = self._destinations.check(request.host, request.port)
        found = self._destinations.connect(parent.hostname, parent.port or 80, seconds=seconds)
        return found, request.to_parent(address, self._login())

    def _login(self) -> str:
        """The header for the parent proxy, which may be empty."""
        if not self._parent.username:
            return ""
        login = f"{unquote(self._parent.username)}:{unquote(self._parent.password or '')}"
        return f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}"


async def relay(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    """Pass on all bytes, then the end."""
    while data := await source.read(CHUNK):
        to.write(data)
        await to.drain()
    if to.can_write_eof():
        to.write_eof()


async def relay_both(*ways: Coroutine[None, None, None]) -> None:
    """Pass bytes on until both ways ended, or one broke."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await task


async def refuse(writer: asyncio.StreamWriter, status: int, why: str) -> None:
    """The reason is in the first line too: pip and curl show no more than that."""
    why = "".join(char if " " <= char <= "~" else "?" for char in why)[:300]
    body = f"{why}\n".encode()
    head = f"HTTP/1.1 {status} {why}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()


class Request(NamedTuple):
    """What a build asks of its proxy: words of known forms, written anew for the destination."""

    host: str
    port: int
    tunnel: bool
    method: str
    path: str
    headers: tuple[str, ...]

    @classmethod
    def read(cls, head: bytes) -> Request:
        """Raises `ValueError` for anything but `CONNECT host:port` and a method on an `http://`
        address, with headers of RFC 9112 and one length of the body."""
        first, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        line, headers = REQUEST_LINE.fullmatch(first), [HEADER.fullmatch(one) for one in rest]
        if not line or not all(headers):
            raise ValueError(first)
        method, target = line.groups()
        tunnel = method == "CONNECT"
        parts = urlsplit(f"//{target}" if tunnel else target)
        host = parts.hostname or ""
        if not HOST.fullmatch(host) or (not parts.port if tunnel else parts.scheme != "http"):
            raise ValueError(target)
        ours = {"connection", "keep-alive", "proxy-connection", "proxy-authorization", "host"}
        body = {"content-length", "transfer-encoding"}
        fields = [(one[1].lower(), f"{one[1]}: {one[2].strip()}") for one in headers if one]
        kept = [one for one in fields if one[0] not in (ours | body if tunnel else ours)]
        lengths = [text for name, text in kept if name in body]
        if len(lengths) > 1 or not all(map(BODY.fullmatch, lengths)):
            raise ValueError(lengths)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(host, parts.port or 80, tunnel, method, path, tuple(text for _, text in kept))

    def to_host(self) -> bytes:
        """What the destination gets first: nothing through a tunnel."""
        return b"" if self.tunnel else self._render(self.path, "Connection: close")

    def to_parent(self, address: str, login: str) -> bytes:
        """What the operator's own proxy gets first, which is to connect to `address`."""
        place, own = name_place(address, self.port), filter(None, [login])
        if self.tunnel:
            return self._render(place, *own, host=place)
        place = place.removesuffix(":80")
        return self._render(f"http://{place}{self.path}", *own, "Connection: close")

    def _render(self, target: str, *own: str, host: str = "") -> bytes:
        host = host or name_place(self.host, self.port).removesuffix(":80")
        lines = [f"{self.method} {target} HTTP/1.1", f"Host: {host}", *own, *self.headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def name_place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
