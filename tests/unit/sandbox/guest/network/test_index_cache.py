"""The cache of a package index: what builds can make it keep, and what not."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.error import HTTPError

import pytest

from sandbox.guest.network.destinations import Destinations
from sandbox.guest.network.holder import listen
from sandbox.guest.network.index_cache import IndexCache, IndexServer
from sandbox.guest.network.pages import local_address, read_address
from sandbox.guest.network.upstream import Upstream

WHEEL = b"a wheel" * 1000
SHA = hashlib.sha256(WHEEL).hexdigest()


class Index(BaseHTTPRequestHandler):
    """An index with one package."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/simple/shop/":
            file = {
                "filename": "shop-1.whl",
                "url": "../../f/shop-1.whl",
                "hashes": {"sha256": SHA},
            }
            body = json.dumps({"files": [{**file, "upload-time": "2020-01-01T00:00:00Z"}]}).encode()
            kind = "application/vnd.pypi.simple.v1+json"
        elif self.path == "/simple/old/":
            body, kind = b'<a href="/f/shop-1.whl#sha256=00">shop-1.whl</a>', "text/html"
        elif self.path == "/f/shop-1.whl":
            body, kind = WHEEL, "application/octet-stream"
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def upstream() -> Iterator[str]:
    Index.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def cache(upstream: str, tmp_path: Path) -> Iterator[str]:
    """The address of a cache in `tmp_path`."""
    listener = listen(0)
    server = IndexServer(
        f"{upstream}/simple",
        "",
        destinations=Destinations([upstream.removeprefix("http://")]),
        listener=listener,
        folder=str(tmp_path),
    )
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/simple"
    server.close()


def get(url: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return answer.read()


def file_address(cache: str) -> str:
    page = json.loads(get(f"{cache}/shop/"))
    assert page["files"][0]["upload-time"]
    return cache.removesuffix("/simple") + page["files"][0]["url"]


def test_a_page_and_a_file_are_fetched_once(cache: str) -> None:
    for _ in range(2):
        assert get(file_address(cache)) == WHEEL
    assert get(file_address(cache), Range="bytes=2-6") == WHEEL[2:7]
    assert Index.asked == ["/simple/shop/", "/f/shop-1.whl"]


def test_a_build_cannot_have_other_content_kept_under_a_hash(
    cache: str, upstream: str, tmp_path: Path
) -> None:
    """A build may ask for its own file under the hash of another."""
    forged = local_address(f"{upstream}/simple/old/", SHA)
    get(cache.removesuffix("/simple") + forged)
    assert not (tmp_path / f"file-{SHA}").exists()
    assert get(file_address(cache)) == WHEEL
    assert (tmp_path / f"file-{SHA}").read_bytes() == WHEEL


def test_metadata_are_kept_under_their_own_address() -> None:
    path = local_address("https://e.org/a-1.whl", SHA)
    assert read_address(path) == ("https://e.org/a-1.whl", SHA)
    assert read_address(path + ".metadata") == ("https://e.org/a-1.whl.metadata", "")
    for wrong in ("/files/x", "/etc/passwd", "/files/AAAA/a"):
        with pytest.raises(ValueError):  # noqa: PT011 - of any kind
            read_address(wrong)


def test_a_build_cannot_send_the_cache_to_a_private_address(cache: str) -> None:
    """The address of a file is in the path, where a build can write another."""
    with socket.create_server(("127.0.0.1", 0)) as private:
        private.settimeout(0.1)
        address = f"http://127.0.0.1:{private.getsockname()[1]}/secret"
        with pytest.raises(HTTPError, match="502") as failed:
            get(cache.removesuffix("/simple") + local_address(address, ""))
        assert b"is private" in failed.value.read()
        with pytest.raises(TimeoutError):
            private.accept()


def test_an_old_page_and_a_missing_one(cache: str) -> None:
    assert b'href="/files/' in get(f"{cache}/old/")
    with pytest.raises(HTTPError, match="404"):
        get(f"{cache}/none/")


def test_the_oldest_goes_when_it_is_full(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / str(number)).write_bytes(b"x" * 100)
    IndexCache("http://e.org", tmp_path, Upstream(Destinations())).shrink(250)
    assert len(list(tmp_path.iterdir())) == 2
