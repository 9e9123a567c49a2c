"""Counts tokens by `POST /tokenize`, which vLLM offers beside its OpenAI-compatible API.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#tokenizer-api
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import httpx2

from pipeline.concurrency import gather_bounded
from pipeline.context.tokens import ESTIMATOR, CountUnavailable, TokenCounter
from pipeline.models.providers.http import ssl_context
from pipeline.models.spec import ModelSpec

_CONCURRENCY = 8
_SECONDS = 30
_CONNECT_SECONDS = 5


class ServerTokenCounter:
    """A `TokenCounter` over one model's server."""

    def __init__(self, spec: ModelSpec, client: httpx2.AsyncClient) -> None:
        """Raises ValueError when `spec` has no address."""
        if spec.base_url is None:
            raise ValueError(f"{spec} has no address.")
        self._spec = spec
        self._url = f"{spec.base_url.rstrip('/').removesuffix('/v1')}/tokenize"
        self._client = client

    @property
    def name(self) -> str:
        return str(self._spec)

    async def count(self, texts: Sequence[str]) -> list[int]:
        return await gather_bounded(_CONCURRENCY, (self._count(text) for text in texts))

    async def _count(self, text: str) -> int:
        prompt = text.encode("utf-8", "replace").decode()
        asked = {"model": self._spec.name, "prompt": prompt, "add_special_tokens": False}
        try:
            reply = await self._client.post(self._url, json=asked)
            reply.raise_for_status()
            answer: object = reply.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise CountUnavailable(f"{self._url}: {type(error).__name__}") from error
        count = cast(dict[str, object], answer).get("count") if isinstance(answer, dict) else None
        if not isinstance(count, int) or (text and count < 1):
            raise CountUnavailable(f"{self._url} gave no count")
        return count


@asynccontextmanager
async def open_counter(spec: ModelSpec, api_key: str) -> AsyncGenerator[TokenCounter, None]:
    """A token counter for the model: its server's if it has one, else an estimate."""
    if spec.base_url is None or spec.provider != "openai":
        yield ESTIMATOR
        return
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    timeout = httpx2.Timeout(_SECONDS, connect=_CONNECT_SECONDS)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, verify=ssl_context()) as client:
        served = ServerTokenCounter(spec, client)
        try:
            await served.count(["one two"])
        except CountUnavailable:
            yield ESTIMATOR
        else:
            yield served
