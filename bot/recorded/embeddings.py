"""`POST /v1/embeddings` without a model: texts that share groups of letters get close vectors.

https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Annotated, Any, Literal
from zlib import crc32

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from bot.recorded.cache import count_tokens
from bot.recorded.requests import ReceivedRequest, parse_body, public_headers
from bot.recorded.responses import answering_name
from pipeline.models.base import Message
from pipeline.models.providers.http import CALL_HEADER

DIMENSIONS = 64
"""The length of a vector."""
_WORD = re.compile(r"\w+")


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class _EmbeddingsBody(BaseModel):
    model_config = ConfigDict(frozen=True)

    model: str = Field(min_length=1)
    input: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = Field(min_length=1)
    encoding_format: Literal["float"] = "float"


def parse_embeddings_request(body: bytes, headers: Mapping[str, str]) -> ReceivedRequest:
    """Parse the request; each text becomes a user message.

    Raises:
        InvalidModelRequest: a real server would respond 400, or the request wants base64.
    """
    sent = parse_body(_EmbeddingsBody, body)
    return ReceivedRequest(
        protocol="openai",
        call=headers.get(CALL_HEADER.lower(), ""),
        model=sent.model,
        system="",
        messages=tuple(Message(role="user", text=text) for text in sent.input),
        max_tokens=None,
        temperature=None,
        stream=False,
        stream_usage=False,
        parts=(),
        headers=public_headers(headers),
    )


def embeddings_response(received: ReceivedRequest) -> dict[str, Any]:
    """The response's body; equal texts always get equal vectors."""
    texts = [message.text for message in received.messages]
    data = [
        {"object": "embedding", "index": index, "embedding": embedding_of(text)}
        for index, text in enumerate(texts)
    ]
    count = sum(map(count_tokens, texts))
    usage = {"prompt_tokens": count, "total_tokens": count}
    return {"object": "list", "data": data, "model": answering_name(received.model), "usage": usage}


def embedding_of(text: str) -> Sequence[float]:
    """A unit vector of the counts of letter triples in the words of `text`."""
    vector = [0.0] * DIMENSIONS
    for word in _WORD.findall(text.lower()):
        for at in range(max(1, len(word) - 2)):
            place = crc32(word[at : at + 3].encode("utf-8", "replace"))
            vector[place % DIMENSIONS] += 1 if place >> 16 & 1 else -1
    length = sqrt(sum(number * number for number in vector)) or 1.0
    return [number / length for number in vector]
