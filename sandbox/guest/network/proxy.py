"""The only way out of a build: an HTTP proxy that connects to permitted destinations.

It resolves names itself, so that a build needs no resolver and has none.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit

from sandbox.guest.network.destinations import Destinations, Refused

CONNECT_SECONDS = 30
CHUNK = 64 * 1024


class Proxy:
    """Answers `CONNECT` and plain HTTP requests (RFC 9110, 9.3.6; RFC 9112, 3.2.2).

    `parent` is the operator's own proxy, through which all goes: `http://user:password@host:port`.
    It resolves the names that are unknown here.
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
            host, port, request = read_request(
                head, self._login() if self._parent.hostname else None
            )
        except (ValueError, asyncio.LimitOverrunError):
            return await refuse(writer, 400, "this proxy understands CONNECT and http addresses")
        loop = asyncio.get_running_loop()
        try:
            connection = await loop.run_in_executor(
                self._resolving, lambda: self._connect(host, port)
            )
        except Refused as error:
            return await refuse(writer, 403, str(error))
        except OSError as error:
            return await refuse(writer, 502, f"{host[:200]} does not answer: {error}")
        connection.setblocking(False)
        theirs, to_them = await asyncio.open_connection(sock=connection, limit=CHUNK)
        try:
            to_them.write(request)
            if not request:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await relay_both(relay(reader, to_them), relay(theirs, writer))
        finally:
            to_them.close()

    def _connect(self, host: str, port: int) -> socket.socket:
        if not self._parent.hostname:
            return self._destinations.connect(host, port, seconds=CONNECT_SECONDS)
        self._destinations.check(host, port)
        parent, its_port = self._parent.hostname, self._parent.port or 80
        return self._destinations.connect(parent, its_port, seconds=CONNECT_SECONDS)

    def _login(self) -> str | None:
        """The header for the parent proxy, which may be empty; None without one."""
        if not self._parent.hostname:
            return None
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
    """Until both ways ended, or one broke."""
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


def read_request(head: bytes, login: str | None = None) -> tuple[str, int, bytes]:
    """Host, port, and what to send there first: nothing for a tunnel.

    With `login`, what to send to a parent proxy, which also makes the tunnel.
    Raises `ValueError` for anything but `CONNECT host:port` and a method on an `http://` address.
    """
    first, _, rest = head.decode("latin-1").partition("\r\n")
    method, target, version = first.split(" ")
    tunnel = method == "CONNECT"
    parts = urlsplit(f"//{target}" if tunnel else target)
    if not parts.hostname or (not parts.port if tunnel else parts.scheme != "http"):
        raise ValueError(target)
    if tunnel and login is None:
        return parts.hostname, parts.port or 0, b""
    ours = {"connection", "keep-alive", "proxy-connection", "proxy-authorization", "host"}
    lines = rest.split("\r\n")
    kept = [line for line in lines if line and line.split(":")[0].strip().lower() not in ours]
    host = parts.netloc.rpartition("@")[2]
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    asked = target if tunnel else path if login is None else f"http://{host}{path}"
    own = [f"Host: {host}", *([login] if login else []), *([] if tunnel else ["Connection: close"])]
    lines = [f"{method} {asked} {version}", *own, *kept, "", ""]
    return parts.hostname, parts.port or 80, "\r\n".join(lines).encode("latin-1")
