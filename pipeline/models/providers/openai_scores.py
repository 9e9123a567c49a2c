"""Embeddings and log-probabilities of OpenAI-compatible servers."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, cast
from urllib.parse import urlsplit

import openai
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from pipeline.data.types import Usage
from pipeline.models.base import (
    EmbeddingFailed,
    ModelProfile,
    ScoreUnavailable,
    Vector,
)
from pipeline.models.metering import Meter, run_metered
from pipeline.models.providers.openai_chat import connect
from pipeline.models.providers.provider_http import (
    TRANSPORT_ERRORS,
    Endpoint,
    call_headers,
    replace_surrogates,
    translate_error,
)
from sandbox.connection_errors import connection_cause

_CALL = "embedding"
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

        Raises ModelMisconfigured if `api_key` cannot be a key. `base_url` ends in `/v1`.
        """
        self._profile = profile
        self._meter = meter
        self._name = f"openai:{profile.name}@{base_url}"
        self._client = connect(profile.name, Endpoint(base_url, api_key, silence_seconds=120.0))
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
                if error.status_code not in _TOO_LONG or half < 200:
                    raise EmbeddingFailed(f"it answered HTTP {error.status_code}") from error
                self._longest = min(half, self._longest or half)
            except (openai.APIError, *TRANSPORT_ERRORS) as error:
                cause = connection_cause(error)
                words = f"it cannot be reached{f': {cause}' if cause else ''}"
                raise EmbeddingFailed(words) from error

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


SILENCE_SECONDS = 120.0
"""Seconds the server may be silent: it writes one token, and reads one edit."""
_ALTERNATIVES = 20
"""The most alternatives that the protocol allows for each token."""
_NO_EXTRA: Mapping[str, object] = MappingProxyType({})


class OpenAILikelihood:
    """`Likelihood` over `POST {base_url}/chat/completions`. Close it with `aclose()`."""

    def __init__(self, profile: ModelProfile, *, base_url: str, api_key: str) -> None:
        """Raises ModelMisconfigured if `api_key` cannot be a key. `base_url` ends in `/v1`."""
        self._profile = profile
        self._service = f"{profile.provider}:{profile.name} at {urlsplit(base_url).hostname}"
        self._client = connect(
            self._service, Endpoint(base_url, api_key, silence_seconds=SILENCE_SECONDS)
        )

    @property
    def profile(self) -> ModelProfile:
        return self._profile

    async def aclose(self) -> None:
        await self._client.close()

    async def first_token(
        self, system: str, question: str, *, call: str
    ) -> tuple[dict[str, float], Usage]:
        answer = await self._ask(
            [{"role": "system", "content": system}, {"role": "user", "content": question}],
            call,
            top_logprobs=_ALTERNATIVES,
        )
        chances: dict[str, float] = {}
        for choice in answer.choices[:1]:
            for token in (choice.logprobs.content or [])[:1] if choice.logprobs else []:
                for one in token.top_logprobs or [token]:
                    name = one.token.strip()
                    chances[name] = chances.get(name, 0.0) + _probability(one.logprob)
        if not any(chances.values()):
            raise ScoreUnavailable(f"{self._service} gave no log-probabilities.")
        return {name: math.log(chance) for name, chance in chances.items() if chance}, _to_usage(
            answer
        )

    async def answer(self, question: str, text: str, *, call: str) -> tuple[float, Usage]:
        """See `Likelihood.answer`.

        A prompt that ends before the answer shows how many of the tokens are the question's, so no
        tokenizer is needed. https://docs.vllm.ai/en/latest/api/vllm/sampling_params.html
        """
        asked: list[ChatCompletionMessageParam] = [
            {"role": "user", "content": replace_surrogates(question)}
        ]
        before = await self._ask(asked, call)
        whole = await self._ask(
            [*asked, {"role": "assistant", "content": replace_surrogates(text)}],
            call,
            # vLLM's own: log-probabilities of the prompt's tokens, which end with our answer.
            extra={
                "prompt_logprobs": 0,
                "add_generation_prompt": False,
                "continue_final_message": True,
            },
        )
        tokens = cast(object, (whole.model_extra or {}).get("prompt_logprobs"))
        skipped = before.usage.prompt_tokens if before.usage else 0
        if not isinstance(tokens, list) or not 0 < skipped < len(cast(list[object], tokens)):
            raise ScoreUnavailable(f"{self._service} gave no log-probabilities of the prompt.")
        values = [_token_logprob(token) for token in cast(list[object], tokens)[skipped:]]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            raise ScoreUnavailable(f"{self._service} gave log-probabilities that are not numbers.")
        return sum(known), _to_usage(before) + _to_usage(whole)

    async def _ask(
        self,
        messages: Sequence[ChatCompletionMessageParam],
        call: str,
        *,
        top_logprobs: int = 0,
        extra: Mapping[str, object] = _NO_EXTRA,
    ) -> ChatCompletion:
        try:
            found = cast(
                object,
                await self._client.chat.completions.create(
                    model=self._profile.name,
                    messages=list(messages),
                    max_tokens=1,
                    temperature=0,
                    logprobs=True if top_logprobs else openai.omit,
                    top_logprobs=top_logprobs or openai.omit,
                    extra_headers=call_headers(call),
                    extra_body=dict(extra) if extra else None,
                ),
            )
        except (openai.APIError, *TRANSPORT_ERRORS) as error:
            raise translate_error(self._service, error) from error
        if not isinstance(found, ChatCompletion) or not cast(object, found.choices):
            raise ScoreUnavailable(f"{self._service} does not speak chat completions.")
        return found


def _probability(logprob: float) -> float:
    return math.exp(min(logprob, 0.0)) if math.isfinite(logprob) else 0.0


def _token_logprob(token: object) -> float | None:
    """The log-probability of the token that stands in the prompt: the first that is listed."""
    if not isinstance(token, Mapping):
        return None
    for entry in cast(Mapping[str, object], token).values():
        value = (
            cast(Mapping[str, object], entry).get("logprob") if isinstance(entry, Mapping) else 0
        )
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
        return None
    return None


def _to_usage(answer: ChatCompletion) -> Usage:
    counted = answer.usage
    return (
        Usage(input=counted.prompt_tokens, output=counted.completion_tokens) if counted else Usage()
    )
