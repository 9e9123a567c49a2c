"""What `doctor` says of the clock, of the public address and of a model's window."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler

import pytest

from bot.cli.doctor_services import CheckFailed, check_chat, check_clock, check_public_url
from bot.data.run import now
from bot.settings import Settings
from tests.support.serving import serve_beside


@contextmanager
def github(ahead: timedelta, status: int = 404) -> Generator[str]:
    """The address of a server whose clock is `ahead` of ours."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            self.send_header("Date", format_datetime(now() + ahead, usegmt=True))
            self.end_headers()
            self.wfile.write(b'{"status": "ok"}')

    with serve_beside(Handler) as port:
        yield f"http://127.0.0.1:{port}"


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
    # Before the first start; `doctor && serve` begins it.
    assert "capuchin serve" in await check_public_url(Settings(public_url=url))
    with github(timedelta(0), 502) as url:
        assert "capuchin serve" in await check_public_url(Settings(public_url=url))
    with github(timedelta(0)) as url, pytest.raises(CheckFailed, match="another program"):
        await check_public_url(Settings(public_url=url))


@contextmanager
def ollama(window: int) -> Generator[str]:
    """The address of a server that keeps the end of what it is sent, and tells in `usage` alone."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            read = min(window, sum(len(each["content"].split()) for each in body["messages"]))
            choice = {"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}
            usage = {"prompt_tokens": read, "completion_tokens": 1, "total_tokens": read + 1}
            chunk = {"id": "1", "model": "m", "choices": [choice], "usage": usage}
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    with serve_beside(Handler) as port:
        yield f"http://127.0.0.1:{port}"


async def test_a_server_that_cuts_what_it_is_sent_is_found_before_a_run() -> None:
    with ollama(4096) as url, pytest.raises(CheckFailed, match=r"read 4,096 tokens") as failed:
        await check_chat(Settings(solver_model=f"openai:m@{url}/v1"), "solver_model")
    assert "num_ctx" in failed.value.mend
    with ollama(32_768) as url:
        assert await check_chat(Settings(solver_model=f"openai:m@{url}/v1"), "solver_model")
