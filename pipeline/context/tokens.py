"""How many tokens a text has: by the model's server, or an estimate.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#tokenizer-api
"""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol, cast

import httpx2

from pipeline.concurrency import gather_bounded
from pipeline.models.providers.provider_http import ssl_context
from pipeline.models.spec import ModelSpec

_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]|\s+|[^\x00-\x7f]+|[^\w\s]|_")


class CountUnavailable(Exception):
    """The server could not count; `str(error)` says which one."""


class TokenCounter(Protocol):
    @property
    def name(self) -> str:
        """Identifies the counter: counts under one name may be cached."""
        ...

    async def count(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, without those of a chat template around it.

        Raises:
            CountUnavailable: the server does not answer; use an estimate.
        """
        ...


class TokenEstimator:
    """`estimate_tokens` as a counter, for models whose server does not count."""

    @property
    def name(self) -> str:
        return "estimate 2"

    async def count(self, texts: Sequence[str]) -> list[int]:
        return [estimate_tokens(text) for text in texts]


ESTIMATOR: Final = TokenEstimator()


def estimate_tokens(text: str) -> int:
    """An upper estimate for code and prose: a tenth more than its `weight`."""
    return -(-weight(text) * 11 // 10)


def weight_for(tokens: int) -> int:
    """The weight of text that is estimated at this many tokens; the inverse of the estimate."""
    return tokens * 10 // 11


def weight(text: str) -> int:
    """One for five small letters or two capitals, a digit, a sign, a line break with its
    indentation (two, when lines are empty before it); two for three bytes beyond ASCII."""
    return sum(_weight(piece) * n for piece, n in Counter(_PIECE.findall(text)).items())


def _weight(piece: str) -> int:
    if piece.isspace():
        kinds = len(set(piece)) if piece.count("\n") > 1 else 1
        return (kinds if piece != " " else 0) + len(piece) // 16
    if not piece[0].isascii():
        return -(-2 * len(piece.encode("utf-8", "replace")) // 3)
    if not piece.isalpha():
        return 1
    if len(piece) == 2 and piece.istitle():  # random letters contain many of these, words few
        return 2
    return -(-len(piece) // (2 if piece.isupper() else 5))


_CONCURRENCY = 8
_SECONDS = 30


class ServerTokenCounter:
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
    timeout = httpx2.Timeout(_SECONDS, connect=5)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, verify=ssl_context()) as client:
        served = ServerTokenCounter(spec, client)
        try:
            await served.count(["one two"])
        except CountUnavailable:
            yield ESTIMATOR
        else:
            yield served
