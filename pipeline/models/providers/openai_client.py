"""The connection that chat, embeddings and log-probabilities share, over the OpenAI SDK."""

from __future__ import annotations

import openai

from pipeline.models.providers.http import Endpoint, event_hooks, ssl_context, validate_key


def connect(service: str, endpoint: Endpoint) -> openai.AsyncOpenAI:
    """A client of `endpoint`; error messages call it `service`.

    Raises:
        ModelMisconfigured: the endpoint's key is unusable.
    """
    return openai.AsyncOpenAI(
        api_key=validate_key(service, endpoint.api_key),
        base_url=endpoint.base_url,
        http_client=openai.DefaultAsyncHttpxClient(verify=ssl_context(), event_hooks=event_hooks()),
        timeout=endpoint.timeout,
        max_retries=endpoint.sdk_retries,
    )
