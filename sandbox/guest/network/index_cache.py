"""A cache of the package index for builds, which no repository's code can write to.

It runs in the container that holds a build's network, where only our own programs run; builds reach
it on the loopback interface. They decide what is fetched, never what is kept: a file is kept under
its SHA-256 and only if it has it, a page or a wheel's metadata under its address as its host served
it. What is built from source is not kept, because a repository's code ran while it was built.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

from sandbox.guest.network.destinations import Destinations
from sandbox.guest.network.pages import JSON_TYPE, read_address, rewrite_page
from sandbox.guest.network.upstream import Answer, Upstream

FOLDER = "/var/cache/capuchin-index"
MAX_BYTES = 4 * 1024**3
"""The bytes of all that is kept; the oldest goes first."""
MAX_PAGE_BYTES = 64 * 1024 * 1024
MAX_FILE_BYTES = 2 * 1024**3
CHUNK = 256 * 1024


class IndexCache:
    """Pages and files of one index in one folder, which several of these may share."""

    def __init__(self, index: str, folder: Path, upstream: Upstream, quota: int) -> None:
        """`quota`: the bytes that this build may have kept."""
        self._index = index.rstrip("/")
        self._folder = folder
        self._upstream = upstream
        self._rewriting = threading.Semaphore(2)
        """A parsed page needs many times its size in memory."""
        folder.mkdir(parents=True, exist_ok=True)
        self._left = quota
        self._counting = threading.Lock()
        self.shrink()
        self.secret = self._load_secret()

    def read_page(self, name: str, accept: str) -> tuple[int, str, bytes]:
        """Status, content type and body of a package's page. Raises `OSError`.

        `accept`: the client's header. pip before 22.2 takes HTML alone, and calls a page of JSON an
        empty one (PEP 691).
        """
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", name):
            raise ValueError(name)
        url = f"{self._index}/{name}/"
        as_json = JSON_TYPE in accept
        kept = self._path("page" if as_json else "html", url)
        known, etag, kind, body = read_kept_page(kept)
        # PyPI lets its own pages be kept for as long.
        if known and time.time() - kept.stat().st_mtime < 600:
            return 200, kind, body
        headers = {"Accept": f"{JSON_TYPE}, text/html;q=0.1" if as_json else "text/html"}
        if known and etag:
            headers["If-None-Match"] = etag
        answer = self._upstream.ask(url, headers)
        try:
            if answer.status == 304:
                answer.read(1)
                os.utime(kept)
                return 200, kind, body
            raw = read_all(answer)
            if answer.status != 200:
                return answer.status, "text/plain", b""
            kind, etag = answer.header("Content-Type"), answer.header("ETag")
        finally:
            answer.finish()
        with self._rewriting:
            try:
                body = rewrite_page(raw, kind, url, self.secret)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise OSError(f"{url} cannot be read") from error
        self._keep(kept, f"{etag}\n{kind}\n".encode() + body)
        return 200, kind, body

    def open_kept_file(self, url: str, sha256: str) -> IO[bytes] | None:
        """A file that is kept; None for one that must be fetched."""
        try:
            handle = self._path_of_file(url, sha256).open("rb")
        except FileNotFoundError:
            return None
        with contextlib.suppress(OSError):
            os.utime(handle.fileno())  # the least recently used goes first
        return handle

    def fetch_file(self, url: str, part: str = "", method: str = "GET") -> Answer:
        """A file from its host, or the bytes `part`. Raises `OSError`."""
        headers = {"Accept-Encoding": "identity", **({"Range": part} if part else {})}
        return self._upstream.ask(url, headers, method)

    @contextlib.contextmanager
    def keep_file(self, url: str, sha256: str) -> Generator[Callable[[bytes], None]]:
        """A writer for the file's bytes; kept after the block if they have the right hash."""
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as out:
            digest = hashlib.sha256()

            fits = True

            def write(data: bytes) -> None:
                nonlocal fits
                digest.update(data)
                fits = fits and self._take(len(data))
                if fits:
                    out.write(data)

            try:
                yield write
                out.flush()
                if fits and (not sha256 or digest.hexdigest() == sha256):
                    Path(out.name).replace(self._path_of_file(url, sha256))
            finally:
                Path(out.name).unlink(missing_ok=True)

    def _take(self, size: int) -> bool:
        """Whether so much more may be kept for this build; makes room for it."""
        with self._counting:
            self._left -= size
            self._total += size
            if self._total > MAX_BYTES:
                self.shrink(MAX_BYTES * 9 // 10)
            return self._left >= 0

    def _load_secret(self) -> bytes:
        """What all builds on this volume seal addresses with; pages are kept with them."""
        path = self._folder / "secret"
        if not path.exists():
            with tempfile.NamedTemporaryFile(dir=self._folder) as file:
                file.write(os.urandom(32))
                file.flush()
                with contextlib.suppress(FileExistsError):  # another build was faster
                    os.link(file.name, path)
        return path.read_bytes()

    def shrink(self, most: int = MAX_BYTES) -> None:
        """Remove what was used longest ago until the rest fits."""
        found: list[tuple[os.stat_result, str]] = []
        for entry in os.scandir(self._folder):
            with contextlib.suppress(FileNotFoundError):  # another build removed it
                if entry.name != "secret":
                    found.append((entry.stat(), entry.path))
        self._total = sum(facts.st_size for facts, _ in found)
        for facts, path in sorted(found, key=lambda one: one[0].st_mtime):
            if self._total <= most:
                return
            Path(path).unlink(missing_ok=True)
            self._total -= facts.st_size

    def _path_of_file(self, url: str, sha256: str) -> Path:
        return self._folder / f"file-{sha256}" if sha256 else self._path("metadata", url)

    def _path(self, kind: str, url: str) -> Path:
        return self._folder / f"{kind}-{hashlib.sha256(url.encode()).hexdigest()}"

    def _keep(self, path: Path, data: bytes) -> None:
        if not self._take(len(data)):
            return
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as out:
            out.write(data)
        Path(out.name).replace(path)


def read_kept_page(path: Path) -> tuple[bool, str, str, bytes]:
    """Whether a page is kept, its ETag, its content type and its body."""
    try:
        etag, kind, body = path.read_bytes().split(b"\n", 2)
    except (FileNotFoundError, ValueError):
        return False, "", "", b""
    return True, etag.decode("latin-1"), kind.decode("latin-1"), body


def read_all(answer: Answer) -> bytes:
    data = bytearray()
    while chunk := answer.read(CHUNK):
        data += chunk
        if len(data) > MAX_PAGE_BYTES:
            raise OSError("the page is too large")
    return bytes(data)


def read_chunk(answer: Answer) -> bytes:
    """As `answer.read`; an answer that breaks off ends the connection to the build as well."""
    try:
        return answer.read(CHUNK)
    except OSError as error:
        raise ConnectionAbortedError(str(error)) from error


def read_range(asked: str, size: int) -> tuple[int, int]:
    """First and last byte of a range header; all of the file where it asks for nothing else."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", asked)
    if not match or not (match[1] or match[2]) or not size:
        return 0, size - 1
    if not match[1]:
        return max(0, size - int(match[2])), size - 1
    return min(int(match[1]), size - 1), min(int(match[2] or size - 1), size - 1)


class Handler(BaseHTTPRequestHandler):
    """Answers pip and uv."""

    protocol_version = "HTTP/1.1"
    cache: IndexCache

    def do_GET(self) -> None:
        try:
            if self.path.startswith("/simple/"):
                name = self.path[len("/simple/") :].strip("/").split("?")[0]
                self.send_whole(*self.cache.read_page(name, self.headers.get("Accept", "")))
            else:
                self.send_file(*read_address(self.path.split("?")[0], self.cache.secret))
        except ValueError:
            self.send_whole(404, "text/plain", b"")
        except ConnectionError:
            self.close_connection = True  # the build went away
        except OSError as error:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.send_whole(502, "text/plain", str(error).encode())

    def send_whole(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def send_file(self, url: str, sha256: str) -> None:
        kept = self.cache.open_kept_file(url, sha256)
        if kept:
            with kept:
                self.send_kept(kept)
            return
        # uv reads the metadata of a wheel as a part of it.
        part = self.headers.get("Range", "")
        answer = self.cache.fetch_file(url, part, self.command)
        try:
            length = answer.header("Content-Length")
            self.start_file(answer.status, length, answer.header("Content-Range"))
            whole = answer.status == 200 and self.command == "GET"
            if whole and (sha256 or url.endswith(".metadata")):
                with self.cache.keep_file(url, sha256) as write:
                    last = self.copy(answer, write, length)
                self.wfile.write(last)  # it is kept before the build can ask for it again
            elif self.command == "GET":
                self.wfile.write(self.copy(answer, lambda _: None, length))
            else:
                answer.read(1)
        finally:
            answer.finish()

    def send_kept(self, kept: IO[bytes]) -> None:
        """The file, or the part of it that is asked for."""
        size = os.fstat(kept.fileno()).st_size
        first, last = read_range(self.headers.get("Range", ""), size)
        part = f"bytes {first}-{last}/{size}" if last - first + 1 < size else ""
        self.start_file(206 if part else 200, str(last - first + 1), part)
        kept.seek(first)
        left = last - first + 1 if self.command == "GET" else 0
        while left > 0 and (chunk := kept.read(min(CHUNK, left))):
            self.wfile.write(chunk)
            left -= len(chunk)

    def start_file(self, status: int, length: str, part: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Accept-Ranges", "bytes")
        if part:
            self.send_header("Content-Range", part)
        if length:
            self.send_header("Content-Length", length)
        else:
            self.close_connection = True
            self.send_header("Connection", "close")
        self.end_headers()

    def copy(self, answer: Answer, write: Callable[[bytes], None], length: str) -> bytes:
        """Pass on all but the last piece, which is returned.

        Raises `OSError` when the answer is too long or breaks off: then nothing is kept.
        """
        total, last = 0, b""
        while chunk := read_chunk(answer):
            total += len(chunk)
            if total > MAX_FILE_BYTES:
                raise ConnectionAbortedError("the file is too large")
            write(chunk)
            self.wfile.write(last)
            last = chunk
        if length and total != int(length):
            raise ConnectionAbortedError("the file broke off")
        return last

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: standard output belongs to the host."""


class IndexServer(ThreadingHTTPServer):
    """Serves a cache of `index` on a listening socket, in threads."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        index: str,
        ca: str,
        *,
        destinations: Destinations,
        listener: socket.socket,
        quota: int,
        folder: str = FOLDER,
    ) -> None:
        self._upstream = Upstream(destinations, ca)
        cache = IndexCache(index, Path(folder), self._upstream, quota)
        handler = type("BoundHandler", (Handler,), {"cache": cache})
        super().__init__(listener.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._upstream.close()
