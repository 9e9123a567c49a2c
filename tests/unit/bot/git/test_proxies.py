"""git finds GitHub through the operator's proxy, and trusts the operator's own authority."""

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trustme

from bot.errors import GitHubUnavailable, RepositoryGone
from bot.git.mirrors import Remote
from tests.support.serving import serve_beside


@contextmanager
def answering_404(authority: trustme.CA | None = None) -> Generator[tuple[int, list[str]]]:
    """A web server's port, and the first lines of what it is asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.requestline)
            self.send_error(404)

    context = None
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
    with serve_beside(Handler, tls=context) as port:
        yield port, asked


async def list_refs(url: str) -> None:
    remote = Remote.on_github(url, "acme/shop", None)
    await remote.git(None, "ls-remote", remote.url, "HEAD")


async def test_git_goes_through_the_proxy_except_where_it_need_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with answering_404() as (port, asked):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "elsewhere.test")
        with pytest.raises(RepositoryGone):
            await list_refs("http://github.test")
        assert asked[0].startswith("GET http://github.test/acme/shop.git/info/refs")
        with pytest.raises(GitHubUnavailable):
            await list_refs("http://elsewhere.test")
        assert not [line for line in asked if "elsewhere" in line]


async def test_git_trusts_the_authority_that_python_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with answering_404(authority) as (port, asked):
        with pytest.raises(GitHubUnavailable):  # the certificate is nobody's
            await list_refs(f"https://127.0.0.1:{port}")
        monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
        with pytest.raises(RepositoryGone):
            await list_refs(f"https://127.0.0.1:{port}")
        assert asked[0].startswith("GET /acme/shop.git/info/refs")
