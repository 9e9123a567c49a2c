"""A served app and signed deliveries."""

import hashlib
import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
from fastapi import FastAPI

from bot.server.connections import serve_app
from tests.support.server_settings import SECRET


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    """`app` on a real socket, and a client of it."""
    async with (
        serve_app(app, "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=url, timeout=120, trust_env=False, verify=False) as client,
    ):
        yield client


def labeled(**changes: Any) -> dict[str, Any]:
    """The payload of an `issues` event as GitHub sends it, cut down."""
    payload: dict[str, Any] = {
        "action": "labeled",
        "issue": {"number": 7, "title": "total() subtracts", "state": "open", "id": 1},
        "label": {"id": 5, "name": "capuchin", "color": "ededed"},
        "repository": {"id": 3, "name": "shop", "owner": {"login": "acme", "id": 4}},
        "sender": {"login": "ann", "type": "User", "id": 6},
        "installation": {"id": 99},
    }
    return payload | changes


def sign(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def deliver(
    client: httpx.AsyncClient,
    payload: dict[str, Any] | bytes,
    *,
    event: str = "issues",
    delivery: str | None = None,
    headers: dict[str, str | bytes] | None = None,
) -> httpx.Response:
    """POST a delivery, signed unless `headers` says otherwise."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    every: dict[str, str | bytes] = {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": str(uuid4()) if delivery is None else delivery,
        "X-Hub-Signature-256": sign(body),
    }
    sent = {name: value for name, value in (every | (headers or {})).items() if value != ""}
    raw = [(k.encode(), v if isinstance(v, bytes) else v.encode("ascii")) for k, v in sent.items()]
    return await client.post("/webhook", content=body, headers=raw)
