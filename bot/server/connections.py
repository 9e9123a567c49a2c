"""Connections: served on a port, and limited so that a slow client costs almost nothing.

There are deadlines for headers, bodies and the reading of answers, a limit of connections, and
limits of the total bytes of incomplete bodies and unread answers. If the server is full, it closes
the connection that has waited longest without completing its headers or body or without reading:
an honest client takes milliseconds.
"""

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar, Final

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from bot.errors import BotError

HEADER_SECONDS: float = 10.0
BODY_SECONDS: float = 20.0
MAX_CONNECTIONS: int = 256
SMALL_BODY: Final = 128 * 1024
"""Bytes that every request may send at any time; GitHub's payloads are mostly 10 to 30 KB."""
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""The total bytes of all bodies, beyond `SMALL_BODY` of each."""
READ_SECONDS: float = 20.0
LEAST_READ: Final = 64 * 1024
"""Bytes that a client must read of an answer in each `READ_SECONDS`."""
MAX_UNREAD_BYTES: int = 64 * 1024 * 1024
"""The total bytes of answers that clients have not read yet, unless one answer alone is larger."""
LOG_SECONDS: Final = 60.0
STREAM_SUFFIX: Final = "/events"

logger = logging.getLogger(__name__)


class BodyRefused(BotError):
    """The body exceeds a limit; `str(error)` says which, for the response with `status`."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 with deadlines for headers and for reading answers, and a limit of connections."""

    waiting: ClassVar["dict[GuardedProtocol, None]"] = {}
    """The connections whose next request is missing or incomplete, whose answer is not being read,
    or that send requests without waiting for answers; the longest-waiting first."""
    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            next(iter(self.waiting), self).transport.abort()
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        request: Any = self.cycle  # None before the first
        if self._deadline is None and (request is None or request.response_complete):
            self._await_headers()
        super().data_received(data)
        begun: Any = self.cycle
        if begun is not request:
            self._forget_deadline()
        if begun is not None and not begun.more_body and not self._is_pipelining:
            self.waiting.pop(self, None)

    def on_response_complete(self) -> None:
        self.waiting[self] = None
        request: Any = self.cycle
        super().on_response_complete()
        if self._unread:  # also of a connection that is closing: it waits for its reader
            self._await_reading()
            return
        begun: Any = self.cycle  # another one if its bytes had come with the last request's
        is_whole = begun is not request and not begun.more_body and not self._is_pipelining
        if self.transport.is_closing() or is_whole:
            self.waiting.pop(self, None)

    def pause_writing(self) -> None:
        """The client does not read as fast as we write: close it first if others need room."""
        super().pause_writing()
        self.waiting[self] = None
        self._await_reading()
        self._limit_unread()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_reading()
        request: Any = self.cycle
        if request is not None and not request.response_complete and not request.more_body:
            self.waiting.pop(self, None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        self._forget_reading()
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End event streams at once: they would last until the server's deadline."""
        super().shutdown()
        request: Any = self.cycle
        if request is not None and request.scope["path"].endswith(STREAM_SUFFIX):
            self.transport.close()

    def _await_headers(self) -> None:
        self.waiting[self] = None
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    @property
    def _is_pipelining(self) -> bool:
        """Whether more than the current request has arrived: no proxy or browser does that."""
        return bool(self.conn.trailing_data[0])

    @property
    def _unread(self) -> int:
        """Bytes of answers that the client has not read yet."""
        return self.transport.get_write_buffer_size()

    def _await_reading(self) -> None:
        if self._reading is None:
            self._reading = self.loop.call_later(READ_SECONDS, self._check_reading, self._unread)

    def _check_reading(self, before: int) -> None:
        """Close the connection if less than `LEAST_READ` of `before` was read since."""
        self._reading = None
        if self._unread > max(0, before - LEAST_READ):
            self.transport.abort()
        elif self._unread:
            self._await_reading()

    def _forget_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _limit_unread(self) -> None:
        total = sum(each._unread for each in self.waiting)
        for each in [each for each in self.waiting if each is not self and each._unread]:
            if total <= MAX_UNREAD_BYTES:
                return
            total -= each._unread
            each.transport.abort()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class OneEnd:
    """Refuses a request with both Content-Length and chunks, and closes its connection: a proxy
    that follows the other of the two would see a second request in its body (RFC 9112, 6.1)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope.get("headers", ())}
        if scope["type"] == "http" and {b"transfer-encoding", b"content-length"} <= names:
            text = "Content-Length and Transfer-Encoding exclude each other.\n"
            answer = PlainTextResponse(text, 400, {"Connection": "close"})
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def build_server(app: ASGIApp, *, stop_seconds: int) -> uvicorn.Server:
    uvicorn_log = logging.getLogger("uvicorn.error")
    if not any(isinstance(each, OncePerMinute) for each in uvicorn_log.filters):
        uvicorn_log.addFilter(OncePerMinute())
    config = uvicorn.Config(
        OneEnd(app),
        http=GuardedProtocol,
        log_config=None,
        log_level="warning",  # `serve` says itself that it listens
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who connects is who connects, whatever X-Forwarded-For says
        ws="none",
        h11_max_incomplete_event_size=32 * 1024,
        # Longer than the 60 s for which nginx and AWS's load balancers reuse a connection: they
        # would send a webhook into one that is being closed.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=stop_seconds,
    )
    return uvicorn.Server(config)


class BodyReader:
    """Reads bodies within the limits that all requests share."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._left = MAX_WAITING_BYTES

    async def read(
        self, declared: str, chunks: AsyncIterator[bytes], look: Callable[[bytes], None]
    ) -> bytearray:
        """Read the whole body; `look` sees each piece. `declared` is its Content-Length.

        Raises:
            BodyRefused: the body is too large or too slow, or all bodies together are too large.
        """
        too_large = BodyRefused(413, "Larger than any payload that GitHub sends.")
        if len(declared) > 12 or not declared.isdecimal() or int(declared) > self._largest:
            raise too_large
        body, taken = bytearray(), 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in chunks:
                    body += chunk
                    look(chunk)
                    if len(body) > self._largest:
                        raise too_large
                    more = max(0, len(body) - SMALL_BODY - taken)
                    if more > self._left:
                        raise BodyRefused(
                            503, "The server is overloaded. Redeliver this webhook later."
                        )
                    self._left -= more
                    taken += more
        except TimeoutError:
            raise BodyRefused(408, "The body took too long to arrive.") from None
        finally:
            self._left += taken
        return body


class RefusalLog:
    """Logs refused webhooks, counted by response status: at most one line a minute."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._last = -LOG_SECONDS

    def add(self, status: int) -> None:
        """Count one refusal, and write the line if it is due."""
        self._counts[status] += 1
        clock = time.monotonic()
        if clock - self._last >= LOG_SECONDS:
            counts = ", ".join(f"{number} × {code}" for code, number in self._counts.items())
            logger.warning("Refused webhooks since the last report, by status: %s", counts)
            self._counts.clear()
            self._last = clock


class OncePerMinute(logging.Filter):
    """Passes each message once a minute: strangers can trigger it any number of times."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message: Any = record.msg
        if record.levelno > logging.WARNING or not isinstance(message, str):
            return True
        last = self._passed.get(message)
        if last is not None and record.created - last < LOG_SECONDS:
            return False
        self._passed[message] = record.created
        return True


@asynccontextmanager
async def serve_app(app: Starlette, host: str, port: int) -> AsyncGenerator[str, None]:
    """Serve until the block ends; yields `http://host:port`.

    Raises:
        OSError: the port is taken.
    """
    # Without an explicit TCP protocol, asyncio keeps Nagle's algorithm on, which costs 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        date_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = _HubServer(config)
    with listener:
        task = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
        await asyncio.wait(
            [task, started := asyncio.ensure_future(server.up.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        started.cancel()
        try:
            yield f"http://{host}:{listener.getsockname()[1]}"
        finally:
            server.stop.set()
            await task


class _HubServer(uvicorn.Server):
    """Leaves signals to its program, and sets `up` when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.stop = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    async def main_loop(self) -> None:
        """Stop immediately on request; uvicorn's own loop checks only ten times a second."""
        await self.stop.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
