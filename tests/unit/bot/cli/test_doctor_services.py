"""What `doctor` says of the clock and of the public address."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from bot.cli.doctor_services import CheckFailed, check_clock, check_public_url
from bot.data.run import now
from bot.settings import Settings


@contextmanager
def github(ahead: timedelta, status: int = 404) -> Generator[str]:
    """The address of a server whose clock is `ahead` of ours."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            self.send_header("Date", format_datetime(now() + ahead, usegmt=True))
            self.end_headers()
            self.wfile.write(b'{"status": "ok"}')

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def test_a_clock_that_is_wrong_is_found() -> None:
    with github(timedelta(0)) as url:
        assert await check_clock(Settings(github_url=url))
    with github(timedelta(minutes=5)) as url, pytest.raises(CheckFailed, match=r"s behind GitHub"):
        await check_clock(Settings(github_url=url))
    with pytest.raises(CheckFailed) as failed:
        await check_clock(Settings(github_url=url))  # nobody answers any more
    assert "GitHub" in failed.value.mend


async def test_a_public_address_on_loopback_is_nobodys_but_this_machines() -> None:
    with github(timedelta(0), 200) as url:
        with pytest.raises(CheckFailed, match="loopback"):
            await check_public_url(Settings(public_url=url, github_url="https://192.0.2.1"))
        alone = await check_public_url(Settings(public_url=url, github_url=url))
    assert "private" in alone
