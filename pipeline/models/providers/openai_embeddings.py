"""The OpenAI SDK behind `Embedder`: OpenAI, vLLM, llama.cpp and others serve `/v1/embeddings`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Annotated

import httpx2
import openai
from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from pipeline.models.base import ModelProfile
from pipeline.models.embedding import EmbeddingFailed, Vector
from pipeline.models.providers.http import Endpoint, call_headers, replace_surrogates
from pipeline.models.providers.openai_client import connect
from pipeline.models.wrappers.metered import Meter, run_metered
from pipeline.types import Usage

_CALL = "embedding"
_SILENCE_SECONDS = 120.0
_MIN_CHARACTERS = 200
"""Characters; the least to which a text too long for the model is cut."""
_TOO_LONG = frozenset({400, 413, 422, 500})
"""How servers reject a text beyond the model's window: llama.cpp returns 500."""


_Number = Annotated[FiniteFloat, Field(ge=-1e15, le=1e15)]
"""Models return numbers around 1; far larger ones would not fit into four bytes."""


class _EmbeddingRow(BaseModel):
    index: int
    embedding: Annotated[list[_Number], Field(min_length=1)]


class _EmbeddingUsage(BaseModel):
    prompt_tokens: int = 0


class _EmbeddingResponse(BaseModel):
    """https://platform.openai.com/docs/api-reference/embeddings/object"""

    data: list[_EmbeddingRow]
    usage: _EmbeddingUsage | None = None


class OpenAIEmbedder:
    """`Embedder` over `POST {base_url}/embeddings`. Close it with `aclose()`."""

    def __init__(
        self, profile: ModelProfile, *, base_url: str, api_key: str, meter: Meter | None = None
    ) -> None:
        """With a `meter`, calls are paid from it under the stage `embedding`.

        Raises ModelMisconfigured when `api_key` is no key. `base_url` ends in `/v1`.
        """
        self._profile = profile
        self._meter = meter
        self._name = f"openai:{profile.name}@{base_url}"
        self._client = connect(
            profile.name, Endpoint(base_url, api_key, silence_seconds=_SILENCE_SECONDS)
        )
        self._longest: int | None = None
        """Characters; found out when the server refuses longer texts."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def title(self) -> str:
        return self._profile.name

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """See `Embedder.embed`: a text that is too long is halved until the server accepts it, as
        sentence-transformers cut at the model's window."""
        while True:
            asked = [replace_surrogates(text)[: self._longest] for text in texts]
            try:
                return await self._request_metered(asked)
            except openai.APIStatusError as error:
                half = max(map(len, asked), default=0) // 2
                if error.status_code not in _TOO_LONG or half < _MIN_CHARACTERS:
                    raise EmbeddingFailed(f"it answered HTTP {error.status_code}") from error
                self._longest = min(half, self._longest or half)
            except (openai.APIError, httpx2.TransportError) as error:
                raise EmbeddingFailed("it cannot be reached") from error

    async def aclose(self) -> None:
        await self._client.close()

    async def _request_metered(self, texts: Sequence[str]) -> list[Vector]:
        if self._meter is None:
            return (await self._request(texts))[0]
        return await run_metered(
            self._meter, self._profile, self._request(texts), stage=_CALL, texts=texts
        )

    async def _request(self, texts: Sequence[str]) -> tuple[list[Vector], Usage]:
        raw = await self._client.embeddings.with_raw_response.create(
            model=self._profile.name,
            input=list(texts),
            encoding_format="float",
            extra_headers=call_headers(_CALL),
        )
        try:
            body = _EmbeddingResponse.model_validate_json(raw.http_response.content)
        except ValidationError:
            raise EmbeddingFailed("it answered nonsense") from None
        rows = {row.index: array("f", row.embedding) for row in body.data}
        if sorted(rows) != list(range(len(texts))) or len(body.data) != len(texts):
            raise EmbeddingFailed(f"it gave {len(body.data)} vectors for {len(texts)} texts")
        counted = body.usage.prompt_tokens if body.usage else 0
        return [rows[index] for index in range(len(texts))], Usage(input=counted)
