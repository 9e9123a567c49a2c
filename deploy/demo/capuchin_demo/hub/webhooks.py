"""Signs and sends webhooks, and remembers each delivery."""

import asyncio
import hashlib
import hmac
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import httpx

TIMEOUT_S = 10.0
"""https://docs.github.com/webhooks: a receiver has ten seconds to answer."""


@dataclass(eq=False)
class Delivery:
    """One webhook. `status` is the response's; None while it is pending, unsent or failed."""

    guid: str
    event: str
    action: str | None
    headers: dict[str, str]
    body: bytes = field(repr=False)
    status: int | None = None
    response: str = ""
    error: str = ""

    @property
    def payload(self) -> dict[str, Any]:
        """The body, parsed."""
        return json.loads(self.body)


def sign(secret: str, body: bytes) -> str:
    """The value of `X-Hub-Signature-256`."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Webhooks:
    """Sends one webhook at a time, in order. Without `url` it only records them."""

    def __init__(self, secret: str, app_id: int) -> None:
        self.url: str | None = None
        self.enterprise_host = ""
        """The host name of this Enterprise Server; empty for github.com."""
        self.deliveries: list[Delivery] = []
        self._secret = secret
        self._app_id = app_id
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: httpx.AsyncClient | None = None

    def send(self, event: str, payload: dict[str, Any]) -> Delivery:
        """Start a delivery; `wait_until_idle` waits for it.

        With a `url`, this needs a running event loop.
        """
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        guid = str(uuid.uuid1())
        sha1 = hmac.new(self._secret.encode(), body, hashlib.sha1).hexdigest()
        enterprise = {
            "X-GitHub-Enterprise-Host": self.enterprise_host,
            "X-GitHub-Enterprise-Version": "3.17.0",
        }
        headers = {
            **(enterprise if self.enterprise_host else {}),
            "Accept": "*/*",
            "Content-Type": "application/json",
            "User-Agent": f"GitHub-Hookshot/{hashlib.sha256(guid.encode()).hexdigest()[:7]}",
            "X-GitHub-Delivery": guid,
            "X-GitHub-Event": event,
            "X-GitHub-Hook-ID": str(self._app_id + 1000),
            "X-GitHub-Hook-Installation-Target-ID": str(self._app_id),
            "X-GitHub-Hook-Installation-Target-Type": "integration",
            "X-Hub-Signature": f"sha1={sha1}",
            "X-Hub-Signature-256": sign(self._secret, body),
        }
        return self._start(Delivery(guid, event, payload.get("action"), headers, body))

    def resend(self, old: Delivery) -> Delivery:
        """Send the same guid and bytes again, like GitHub's redeliver button."""
        return self._start(Delivery(old.guid, old.event, old.action, dict(old.headers), old.body))

    async def wait_until_idle(self) -> None:
        """Wait until no delivery is pending, including those that a response causes."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Cancel pending deliveries."""
        for task in self._tasks:
            task.cancel()
        await self.wait_until_idle()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _start(self, delivery: Delivery) -> Delivery:
        self.deliveries.append(delivery)
        if self.url is not None:
            task = asyncio.get_running_loop().create_task(self._post(self.url, delivery))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return delivery

    async def _post(self, url: str, delivery: Delivery) -> None:
        async with self._lock:
            if self._client is None:
                self._client = httpx.AsyncClient(
                    timeout=TIMEOUT_S,
                    trust_env=False,
                    verify=url.startswith("https:"),
                    # A kept connection may be about to be closed when the next webhook takes it.
                    limits=httpx.Limits(max_keepalive_connections=0),
                )
            try:
                answer = await self._client.post(
                    url, content=delivery.body, headers=delivery.headers
                )
            except httpx.HTTPError as failure:
                delivery.error = f"{type(failure).__name__}: {failure}"
            else:
                delivery.status, delivery.response = answer.status_code, answer.text
