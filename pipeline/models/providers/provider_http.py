"""What both clients share at the HTTP edge: keys, headers, text, and the meaning of a status."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2

from pipeline.data.types import Usage
from pipeline.models.base import (
    ContextTooLong,
    Model,
    ModelError,
    ModelMisconfigured,
    ModelProfile,
    ModelRetired,
    ModelUnavailable,
)

CALL_HEADER = "X-Capuchin-Call"
"""The header that names each request, for gateways, logs and recordings."""

DOCTOR_CALL = "doctor/0"
"""What `capuchin doctor` names its question to each model."""

NO_KEY = "EMPTY"
"""What vLLM's documentation sends to a server that wants no key."""

SILENCE_SECONDS = 600.0
"""Seconds a service may be silent; both SDKs' own default."""

CONNECT_SECONDS = 10.0

SDK_RETRIES = 2
"""Both SDKs' own default; they obey `retry-after`."""

_TRANSIENT = frozenset({408, 409, 425, 429, 499})
"""Client errors that both SDKs retry, or that say that somebody hung up."""

_STATUS_MEANING = {
    **dict.fromkeys(
        (301, 302, 303, 307, 308), "redirects to another host, which is not configured"
    ),
    401: "does not accept the key",
    402: "requires a payment first",
    403: "does not allow this key to use the model",
    404: "does not know the model or the address",
    429: "limits our request rate",
    529: "is overloaded",
}


@cache
def ssl_context() -> ssl.SSLContext:
    """The authorities that both SDKs trust by themselves, read once for all clients: reading them
    takes longer than all else in making one.
    """
    return httpx2.create_ssl_context()


async def block_foreign_redirect(response: httpx2.Response) -> None:
    """For `event_hooks`: follow redirects within the service's own host only.

    Otherwise code and the key would go to a host that nobody configured.
    """
    if not response.has_redirect_location:
        return
    asked = response.request.url
    if asked.join(response.headers["location"]).host != asked.host:
        del response.headers["location"]


def event_hooks() -> dict[str, list[Callable[..., Any]]]:
    """The `event_hooks` of every client of a service."""
    return {"response": [block_foreign_redirect]}


@dataclass(frozen=True)
class Endpoint:
    """Where a service is, and how to call it."""

    base_url: str
    """Ends in `/v1` for servers that speak OpenAI's protocol, and not for Anthropic's."""
    api_key: str = NO_KEY
    silence_seconds: float = SILENCE_SECONDS
    sdk_retries: int = SDK_RETRIES

    @property
    def timeout(self) -> httpx2.Timeout:
        return httpx2.Timeout(self.silence_seconds, connect=CONNECT_SECONDS)


class ProviderClient(Model):
    """What both clients know about themselves."""

    def __init__(self, profile: ModelProfile, base_url: str) -> None:
        self._profile = profile
        self.service = f"{profile.provider}:{profile.name} at {urlsplit(base_url).hostname}"
        """The service's name in error messages."""

    @property
    def profile(self) -> ModelProfile:
        return self._profile


class StreamState(Protocol):
    """What a stream has delivered so far."""

    @property
    def usage(self) -> Usage | None: ...


@contextmanager
def keep_usage_on_cancel(state: StreamState) -> Generator[None]:
    """Wraps reading a stream: `usage_of` a cancellation returns what was counted by then."""
    try:
        yield
    except asyncio.CancelledError as cancelled:
        vars(cancelled)["usage"] = state.usage
        raise


def error_for_status(service: str, status: int, *, too_long: bool = False) -> ModelError:
    """The error for an HTTP `status`; its text never quotes the response's body."""
    if status == 413 or (too_long and status == 400):
        return ContextTooLong(f"The conversation is too long for {service}.")
    if status in _TRANSIENT or status >= 500:
        return ModelUnavailable(
            f"{service} {_STATUS_MEANING.get(status, 'failed')} (HTTP {status})."
        )
    kind = ModelRetired if status == 404 else ModelMisconfigured
    return kind(
        f"{service} {_STATUS_MEANING.get(status, 'does not accept our request')} (HTTP {status})."
    )


def validate_key(service: str, key: str) -> str:
    """`key` itself.

    Raises:
        ModelMisconfigured: it is empty or cannot be put in a header.
    """
    if not key:
        raise ModelMisconfigured(f"No key is set for {service}.")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelMisconfigured(
            f"The key for {service} contains a space, a line break or a non-ASCII character."
        )
    return key


def call_headers(call: str) -> dict[str, str]:
    """The header that names the request.

    Raises:
        ValueError: `call` is not printable ASCII.
    """
    if not (call.isascii() and call.isprintable()):
        raise ValueError(f"not the name of a call: {call!r}")
    return {CALL_HEADER: call}


def replace_surrogates(text: str) -> str:
    """`text` with lone surrogates replaced: undecodable bytes of a file become such."""
    return text.encode("utf-8", "replace").decode("utf-8")
