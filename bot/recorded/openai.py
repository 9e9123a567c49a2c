"""Answers as chat completions give them, in vLLM's way where servers differ.

https://platform.openai.com/docs/api-reference/chat and https://docs.vllm.ai
"""

from __future__ import annotations

import json
from typing import Any

from bot.recorded.responses import Streamed, Told

DONE = b"data: [DONE]\n\n"

_CREATED = 1_767_225_600
"""A recording has no clock: 2026-01-01T00:00:00Z, in Unix seconds."""

_FINISH = {"end": "stop", "length": "length", "refusal": "content_filter", "context": "length"}


class OpenAIWire:
    def whole(self, told: Told) -> dict[str, Any]:
        refused = told.stop == "refusal"
        message = {
            "role": "assistant",
            "content": None if refused else told.text,
            "refusal": told.text if refused else None,
        }
        choice = {
            "index": 0,
            "message": message,
            "logprobs": _logprobs(told),
            "finish_reason": _FINISH[told.stop],
        }
        return {
            **_base(told, "chat.completion"),
            "choices": [choice],
            "usage": _usage(told),
            "prompt_logprobs": _prompt_logprobs(told),
        }

    def streamed(self, told: Told) -> Streamed:
        said = "refusal" if told.stop == "refusal" else "content"
        end = [self.event(_chunk(told, {}, _FINISH[told.stop]))]
        if told.stream_usage:
            end.append(self.event({**_chunk(told, {}), "choices": [], "usage": _usage(told)}))
        begin = [self.event(_chunk(told, {"role": "assistant", "content": ""}))]
        if told.thinking:
            begin.append(self.event(_chunk(told, {"reasoning_content": told.thinking})))
        if told.logprobs:
            begin.append(self.event(_chunk(told, {"content": ""}, logprobs=_logprobs(told))))
        return Streamed(
            begin=begin,
            pieces=[self.event(_chunk(told, {said: piece})) for piece in told.pieces()],
            end=[*end, DONE],
        )

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = "BadRequestError" if status == 400 else "InternalServerError"
        return {"error": {"message": message, "type": kind, "param": None, "code": status}}

    def event(self, data: dict[str, Any]) -> bytes:
        return f"data: {json.dumps(data)}\n\n".encode()


def _base(told: Told, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{told.id}", "object": kind, "created": _CREATED, "model": told.model}


def _chunk(
    told: Told,
    delta: dict[str, str],
    finish: str | None = None,
    *,
    logprobs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
    return {**_base(told, "chat.completion.chunk"), "choices": [choice]}


def _logprobs(told: Told) -> dict[str, Any] | None:
    """The first token with the likeliest ones in its place."""
    if not told.logprobs:
        return None
    top = [
        {"token": token, "logprob": value, "bytes": list(token.encode())}
        for token, value in told.logprobs
    ]
    return {"content": [{**top[0], "top_logprobs": top}]}


def _prompt_logprobs(told: Told) -> list[dict[str, Any] | None] | None:
    """By token id, as vLLM's `PromptLogprobs`: nothing comes before the first token."""
    if told.prompt_logprobs is None:
        return None
    return [
        {str(at): {"logprob": value, "rank": 1, "decoded_token": ""}} if at else None
        for at, value in enumerate(told.prompt_logprobs)
    ]


def _usage(told: Told) -> dict[str, Any]:
    counted = told.usage
    prompt = counted.input + counted.cache_read + counted.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": counted.output,
        "total_tokens": prompt + counted.output,
        "prompt_tokens_details": {"cached_tokens": counted.cache_read},
    }
