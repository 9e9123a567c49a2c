"""The connection that chat, embeddings and log-probabilities share, over the OpenAI SDK."""

from __future__ import annotations

import httpx2
import openai

from pipeline.models.providers.http import (
    CONNECT_SECONDS,
    SDK_RETRIES,
    event_hooks,
    ssl_context,
    validate_key,
)


def connect(
    service: str,
    *,
    base_url: str,
    api_key: str,
    silence_seconds: float,
    sdk_retries: int = SDK_RETRIES,
) -> openai.AsyncOpenAI:
    """A client of `service`, as messages call it. `base_url` ends in `/v1`.

    `silence_seconds` is how long the server may send nothing.

    Raises:
        ModelMisconfigured: `api_key` is no key.
    """
    return openai.AsyncOpenAI(
        api_key=validate_key(service, api_key),
        base_url=base_url,
        http_client=openai.DefaultAsyncHttpxClient(verify=ssl_context(), event_hooks=event_hooks()),
        timeout=httpx2.Timeout(silence_seconds, connect=CONNECT_SECONDS),
        max_retries=sdk_retries,
    )
