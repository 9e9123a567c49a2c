"""Whatever is sent to the server: arbitrary requests, and what GitHub documents."""

import functools
import json
import random
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.queue.jobs import RunQueue
from bot.server.app import create_app
from bot.settings import Settings
from bot.storage.storage import Storage
from tests.contracts.github.contract import webhook_contract
from tests.contracts.github.webhook_payloads import Payloads, broken
from tests.e2e.webhook.delivery import deliver, labeled, sign
from tests.support.hypothesis_settings import QUICK

WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.sampled_from(
    ["issues", "issue_comment", "pull_request", "pull_request_review_comment",
     "pull_request_review", "check_run", "check_suite", "installation",
     "installation_repositories", "repository", "ping", "push", ""]
)  # fmt: skip
ACTIONS = st.sampled_from(
    ["labeled", "unlabeled", "opened", "created", "edited", "closed", "assigned", "submitted",
     "synchronize", "rerequested", "deleted", ""]
)  # fmt: skip
HOSTILE = st.binary(max_size=12).map(lambda raw: "/runs/" + "".join(f"%{b:02x}" for b in raw))
PATHS = HOSTILE | st.sampled_from(
    ["/", "/webhook", "/healthz", "/readyz", "/metrics", "/runs", "/runs/" + "0" * 32,
     "/schema/capuchin.json"]
)  # fmt: skip


def _near_miss(keys: list[str], value: Any, more: dict[str, Any]) -> dict[str, Any]:
    """A payload that GitHub might send, with one thing in it replaced."""
    payload: dict[str, Any] = json.loads(json.dumps(labeled())) | more
    place = payload
    for key in keys[:-1]:
        place = place[key] if isinstance(place.get(key), dict) else place
    place[keys[-1]] = value
    return payload


KEYS = st.sampled_from(
    [["action"], ["issue"], ["issue", "number"], ["label"], ["label", "name"], ["repository"],
     ["repository", "name"], ["repository", "owner"], ["repository", "owner", "login"],
     ["sender"], ["sender", "login"], ["installation"], ["installation", "id"], ["comment"]]
)  # fmt: skip
PAYLOADS = st.builds(_near_miss, KEYS, JSON, st.fixed_dictionaries({"action": ACTIONS}))


@pytest.fixture
async def inside(settings: Settings) -> AsyncGenerator[httpx.AsyncClient]:
    """Errors of the app are raised here, not answered."""
    app = create_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client,
    ):
        yield client


@QUICK
@given(
    event=EVENTS | WORDS,
    payload=(PAYLOADS | JSON).map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=60),
    delivery=st.uuids().map(str) | WORDS,
)
async def test_a_signed_delivery_of_anything(
    inside: httpx.AsyncClient, event: str, payload: bytes, delivery: str
) -> None:
    headers = {
        b"x-hub-signature-256": sign(payload).encode(),
        b"x-github-event": event.encode(),
        b"x-github-delivery": delivery.encode(),
    }
    answer = await inside.post("/webhook", content=payload, headers=list(headers.items()))
    assert answer.status_code in (200, 202, 204, 400)


@QUICK
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    path=PATHS,
    query=st.dictionaries(st.sampled_from(["key", "x"]), WORDS, max_size=2),
    headers=st.dictionaries(
        st.sampled_from([b"authorization", b"content-length", b"accept", b"x-hub-signature-256"]),
        st.binary(max_size=30),
        max_size=2,
    ),
    body=st.binary(max_size=40),
)
async def test_a_request_of_anything(
    inside: httpx.AsyncClient,
    method: str,
    path: str,
    query: dict[str, str],
    headers: dict[bytes, bytes],
    body: bytes,
) -> None:
    answer = await inside.request(
        method, path, params=query, headers=list(headers.items()), content=body
    )
    assert answer.status_code < 500


WHOLE = 3
"""Of each webhook."""
BROKEN = 12


@functools.cache
def payloads() -> Payloads:
    return Payloads()


@pytest.mark.parametrize("name", payloads().names)
async def test_what_github_may_send_is_taken_once_and_what_it_may_not_breaks_nothing(
    name: str, settings: Settings, storage: Storage
) -> None:
    dice = random.Random(name)
    event = payloads().event(name)
    runs, queue = storage.runs, RunQueue(storage)
    app = create_app(settings)
    transport = httpx.ASGITransport(app)  # raises what would be a 500
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://server") as client,
    ):
        for turn in range(WHOLE + BROKEN):
            payload = payloads().valid(name, dice)
            if turn < WHOLE:
                assert webhook_contract().problems(event, payload) == []
            else:
                payload = broken(payload, dice)
            body, guid = json.dumps(payload).encode(), str(UUID(int=dice.getrandbits(128)))
            first = await deliver(client, body, event=event, delivery=guid)
            queued = (len(await runs.list_active()), await queue.count_requests())
            again = await deliver(client, body, event=event, delivery=guid)
            assert (len(await runs.list_active()), await queue.count_requests()) == queued
            taken = (200, 202, 204) if turn < WHOLE else (200, 202, 204, 400)
            assert {first.status_code, again.status_code} <= set(taken), first.text
