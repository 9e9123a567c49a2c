"""Fetches over kept-open connections from the package index and the hosts of its files."""

from __future__ import annotations

import http.client
import ssl
import threading
from typing import Any
from urllib.parse import urljoin, urlsplit

from sandbox.guest.network.destinations import Destinations

SECONDS = 60


class Connection(http.client.HTTPConnection):
    """A connection to a permitted destination: a build can name any address here."""

    def __init__(
        self, netloc: str, *, destinations: Destinations, tls: ssl.SSLContext | None
    ) -> None:
        self.default_port = http.client.HTTPS_PORT if tls else http.client.HTTP_PORT
        super().__init__(netloc, timeout=SECONDS)
        self._destinations, self._tls = destinations, tls

    def connect(self) -> None:
        self.sock: Any = self._destinations.connect(self.host, self.port, seconds=SECONDS)
        if self._tls:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)


class Upstream:
    """Connections to hosts; an idle one is used again."""

    def __init__(self, destinations: Destinations, ca: str = "") -> None:
        self._destinations = destinations
        self._context = ssl.create_default_context(cadata=ca or None)
        self._idle: dict[tuple[str, str], list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()

    def ask(self, url: str, headers: dict[str, str], method: str = "GET") -> Answer:
        """The answer to a request, after redirects.

        Raises:
            OSError: the host does not answer, or what it says makes no sense.
        """
        for _ in range(5):
            answer = self._ask_once(url, headers, method)
            if answer.status not in {301, 302, 303, 307, 308}:
                return answer
            url = urljoin(url, answer.header("Location"))
            answer.finish()
        raise OSError(f"{url} redirects without end")

    def _ask_once(self, url: str, headers: dict[str, str], method: str) -> Answer:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise OSError(f"{url[:200]} is not the address of a package index")
        key = (parts.scheme, parts.netloc)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        for fresh in (False, True):
            connection = self._take(key, fresh=fresh)
            if connection is None:
                continue
            try:
                sent = {"User-Agent": "capuchin-index-cache", **headers}
                connection.request(method, path, headers=sent)
                return Answer(self, key, connection, connection.getresponse())
            except (OSError, http.client.HTTPException) as error:
                connection.close()  # an idle one may have been closed by the other side
                if fresh:
                    raise OSError(f"{parts.netloc} does not answer: {error}") from error
        raise OSError(f"{parts.netloc} does not answer")

    def _take(self, key: tuple[str, str], *, fresh: bool) -> http.client.HTTPConnection | None:
        if not fresh:
            with self._lock:
                waiting = self._idle.get(key)
                return waiting.pop() if waiting else None
        tls = self._context if key[0] == "https" else None
        return Connection(key[1], destinations=self._destinations, tls=tls)

    def give_back(self, key: tuple[str, str], connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._idle.setdefault(key, []).append(connection)

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            for waiting in self._idle.values():
                for connection in waiting:
                    connection.close()
            self._idle.clear()


class Answer:
    """The answer to one request. Call `finish` in the end, whether all of it was read or not."""

    def __init__(
        self,
        upstream: Upstream,
        key: tuple[str, str],
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
    ) -> None:
        self._upstream, self._key = upstream, key
        self._connection, self._response = connection, response
        self.status = response.status

    def header(self, name: str) -> str:
        return self._response.getheader(name) or ""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end. Raises `OSError` when it breaks off."""
        try:
            return self._response.read(size)
        except http.client.HTTPException as error:
            raise OSError(f"the answer broke off: {error}") from error

    def finish(self) -> None:
        if self._response.isclosed():
            self._upstream.give_back(self._key, self._connection)
        else:
            self._connection.close()
