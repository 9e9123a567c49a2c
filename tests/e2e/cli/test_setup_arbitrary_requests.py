"""Whatever is sent to the local page of `capuchin setup`, it answers, and never with an error.

Nor does it hear anybody who does not know the state that it sent to GitHub.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cli.setup_browser import MAX_CODE_LENGTH, RegistrationFlow
from tests.support.hypothesis_settings import QUICK

WORDS = st.text(st.characters(codec="utf-8"), max_size=30)
HOSTILE = st.binary(max_size=30).map(lambda raw: "".join(f"%{byte:02x}" for byte in raw))
PATHS = st.sampled_from(["/", "/created", "/created/", "//", "/x"]) | HOSTILE.map("/".__add__)
QUERIES = HOSTILE | st.dictionaries(st.sampled_from(["state", "code", "x"]), WORDS, max_size=3).map(
    lambda words: str(httpx.QueryParams(words))
)


@dataclass
class Page:
    """The page, and a browser whose requests reach it inside; its errors are raised here."""

    journey: RegistrationFlow
    browser: httpx.AsyncClient
    given: asyncio.Task[str]

    async def back(self, **query: str) -> httpx.Response:
        return await self.browser.get("/created", params=query)


@pytest.fixture
async def page() -> AsyncGenerator[Page]:
    journey = RegistrationFlow("https://ghe.acme.test", "acme", lambda back: {"redirect_url": back})
    transport = httpx.ASGITransport(journey.build_app())
    given_code = asyncio.create_task(journey.wait_for_code())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
        yield Page(journey, browser, given_code)
    given_code.cancel()


@QUICK
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    path=PATHS,
    query=QUERIES,
    headers=st.dictionaries(
        st.sampled_from([b"host", b"cookie", b"content-length", b"accept", b"range"]),
        st.binary(max_size=30),
        max_size=2,
    ),
    body=st.binary(max_size=40),
)
async def test_a_request_of_anything(
    page: Page, method: str, path: str, query: str, headers: dict[bytes, bytes], body: bytes
) -> None:
    address = httpx.URL(f"http://127.0.0.1{path}?{query}")
    answer = await page.browser.request(
        method, address, headers=list(headers.items()), content=body
    )
    assert answer.status_code < 500
    assert not page.given.done()
    assert page.journey.state not in answer.text or (path.strip("/"), method) == ("", "GET")


@QUICK
@given(code=WORDS | HOSTILE | st.just("x" * 5_000), state=WORDS | st.just(""))
async def test_without_the_state_no_code_is_heard(page: Page, code: str, state: str) -> None:
    assert (await page.back(code=code, state=state)).status_code == 400
    assert not page.given.done()


@QUICK
@given(code=st.text(st.characters(codec="utf-8"), max_size=300))
async def test_with_the_state_what_is_no_code_is_reported(page: Page, code: str) -> None:
    fits = code.isascii() and 0 < len(code) <= MAX_CODE_LENGTH
    fits = fits and all(c.isalnum() or c in "-_" for c in code)
    answer = await page.back(code=code, state=page.journey.state)
    assert answer.status_code == (200 if fits else 400)


async def test_missing_twice_huge_or_replayed(page: Page) -> None:
    state = page.journey.state
    assert (await page.browser.get("/created")).status_code == 400
    assert (await page.back(state=state)).status_code == 400
    assert (await page.back(code="abc")).status_code == 400
    assert (await page.back(code="x" * 50_000, state=state)).status_code == 400
    assert (await page.back(code="abc", state=state * 1_000)).status_code == 400
    twice = f"/created?state={state}&state=wrong&code=abc"
    assert (await page.browser.get(twice)).status_code == 400
    assert not page.given.done()
    assert (await page.back(code="first", state=state)).status_code == 200
    assert (await page.back(code="second", state=state)).status_code == 200
    assert await page.given == "first"
