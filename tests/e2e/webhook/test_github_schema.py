"""Webhooks made up from GitHub's own schema, whole and broken: believed, or refused with reason."""

from __future__ import annotations

import functools
import json
import random
from uuid import UUID

import httpx
import pytest

from bot.server.app import create_app
from bot.settings import Settings
from bot.storage.storage import Storage
from tests.contracts.github.contract import webhook_contract
from tests.contracts.github.webhook_payloads import Payloads, broken
from tests.e2e.webhook.delivery import deliver

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
    runs, requests = storage.runs, storage.requests
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
            queued = (len(await runs.list_active()), await requests.count())
            again = await deliver(client, body, event=event, delivery=guid)
            assert (len(await runs.list_active()), await requests.count()) == queued
            taken = (200, 202, 204) if turn < WHOLE else (200, 202, 204, 400)
            assert {first.status_code, again.status_code} <= set(taken), first.text
