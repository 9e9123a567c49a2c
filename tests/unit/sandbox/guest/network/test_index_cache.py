"""The cache of a package index: what builds can make it keep, and what not."""

import hashlib
import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar
from urllib.error import HTTPError

import pytest

from sandbox.guest.network.destinations import Destinations
from sandbox.guest.network.holder import listen
from sandbox.guest.network.index_cache import IndexCache, IndexServer
from sandbox.guest.network.pages import JSON_TYPE, local_address, read_address
from sandbox.guest.network.upstream import Upstream
from tests.support.serving import serve_beside

WHEEL = b"a wheel" * 1000
SHA = hashlib.sha256(WHEEL).hexdigest()
BIG = b"big" * 100_000
BIG_SHA = hashlib.sha256(BIG).hexdigest()
QUOTA = 100_000


class Index(BaseHTTPRequestHandler):
    """An index with one package."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/simple/shop/" and JSON_TYPE not in self.headers["Accept"]:
            body = f'<a href="/f/shop-1.whl#sha256={SHA}">shop-1.whl</a>'.encode()
            kind = "text/html"
        elif self.path == "/simple/shop/":
            file = {
                "filename": "shop-1.whl",
                "url": "../../f/shop-1.whl",
                "hashes": {"sha256": SHA},
            }
            body = json.dumps({"files": [{**file, "upload-time": "2020-01-01T00:00:00Z"}]}).encode()
            kind = "application/vnd.pypi.simple.v1+json"
        elif self.path == "/simple/old/":
            body, kind = b'<a href="/f/shop-1.whl#sha256=00">shop-1.whl</a>', "text/html"
        elif self.path == "/simple/big/":
            body, kind = f'<a href="/f/big-1.whl#sha256={BIG_SHA}">big</a>'.encode(), "text/html"
        elif self.path == "/f/big-1.whl":
            body, kind = BIG, "application/octet-stream"
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


@pytest.fixture
def upstream() -> Iterator[str]:
    Index.asked.clear()
    with serve_beside(Index) as port:
        yield f"http://127.0.0.1:{port}"


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
        quota=QUOTA,
    )
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/simple"
    server.close()


def get(url: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return answer.read()


def file_address(cache: str) -> str:
    page = json.loads(get(f"{cache}/shop/", Accept=f"{JSON_TYPE}, text/html; q=0.1"))
    assert page["files"][0]["upload-time"]
    return cache.removesuffix("/simple") + page["files"][0]["url"]


def test_a_page_and_a_file_are_fetched_once(cache: str) -> None:
    for _ in range(2):
        assert get(file_address(cache)) == WHEEL
    assert get(file_address(cache), Range="bytes=2-6") == WHEEL[2:7]
    assert Index.asked == ["/simple/shop/", "/f/shop-1.whl"]


def test_an_old_pip_gets_the_html_that_it_asks_for(cache: str) -> None:
    file_address(cache)  # a page of JSON is kept
    page = get(f"{cache}/shop/", Accept="text/html").decode()
    link = re.search(r'href="([^"]+)"', page)
    assert link
    assert get(cache.removesuffix("/simple") + link[1].partition("#")[0]) == WHEEL


def test_a_build_cannot_have_other_content_kept_under_a_hash(
    cache: str, upstream: str, tmp_path: Path
) -> None:
    """A build may ask for its own file under the hash of another."""
    forged = local_address(f"{upstream}/simple/old/", SHA, (tmp_path / "secret").read_bytes())
    get(cache.removesuffix("/simple") + forged)
    assert not (tmp_path / f"file-{SHA}").exists()
    assert get(file_address(cache)) == WHEEL
    assert (tmp_path / f"file-{SHA}").read_bytes() == WHEEL


def test_metadata_are_kept_under_their_own_address() -> None:
    path, secret = local_address("https://e.org/a-1.whl", SHA, b"secret"), b"secret"
    assert read_address(path, secret) == ("https://e.org/a-1.whl", SHA)
    assert read_address(path + ".metadata", secret) == ("https://e.org/a-1.whl.metadata", "")
    for wrong in (
        "/files/x",
        "/etc/passwd",
        "/files/AAAA/a",
        local_address("https://e.org/", SHA, b""),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - of any kind
            read_address(wrong, secret)


def test_a_build_has_nothing_fetched_that_no_page_of_the_index_named(
    cache: str, upstream: str
) -> None:
    with pytest.raises(HTTPError, match="404"):
        get(cache.removesuffix("/simple") + local_address(f"{upstream}/f/big-1.whl", BIG_SHA, b""))
    for name in ("..%2f..%2ff", "shop%3fx", "a" * 300):
        with pytest.raises(HTTPError, match="404"):
            get(f"{cache}/{name}/")
    assert Index.asked == []


def test_a_build_has_no_more_kept_than_its_quota(cache: str, tmp_path: Path) -> None:
    address = re.search(r'href="(/files/[^"#]+)', get(f"{cache}/big/").decode())
    assert address
    for _ in range(2):
        assert get(cache.removesuffix("/simple") + address[1]) == BIG
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < QUOTA


def test_a_build_cannot_send_the_cache_to_a_private_address(cache: str, tmp_path: Path) -> None:
    """Not even to one that a page names."""
    with socket.create_server(("127.0.0.1", 0)) as private:
        private.settimeout(0.1)
        address = f"http://127.0.0.1:{private.getsockname()[1]}/secret"
        with pytest.raises(HTTPError, match="502") as failed:
            get(
                cache.removesuffix("/simple")
                + local_address(address, "", (tmp_path / "secret").read_bytes())
            )
        assert b"80 and 443 only" in failed.value.read()
        with pytest.raises(TimeoutError):
            private.accept()


def test_an_old_page_and_a_missing_one(cache: str) -> None:
    assert b'href="/files/' in get(f"{cache}/old/")
    with pytest.raises(HTTPError, match="404"):
        get(f"{cache}/none/")


def test_the_oldest_goes_when_it_is_full(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / str(number)).write_bytes(b"x" * 100)
    IndexCache("http://e.org", tmp_path, Upstream(Destinations()), 0).shrink(250)
    assert len([path for path in tmp_path.iterdir() if path.name != "secret"]) == 2
