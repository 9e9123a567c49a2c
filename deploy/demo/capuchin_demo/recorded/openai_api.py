"""Chat completions in OpenAI's form.

https://platform.openai.com/docs/api-reference/chat and https://docs.vllm.ai

"""

import json
from typing import Any

from capuchin_demo.recorded.responses import ModelResponse, StreamEvents

_FINISH = {"end": "stop", "length": "length", "refusal": "content_filter", "context": "length"}


class OpenAIEncoder:
    def to_json(self, response: ModelResponse) -> dict[str, Any]:
        refused = response.stop == "refusal"
        message = {
            "role": "assistant",
            "content": None if refused else response.text,
            "refusal": response.text if refused else None,
        }
        choice = {
            "index": 0,
            "message": message,
            "logprobs": _logprobs(response),
            "finish_reason": _FINISH[response.stop],
        }
        return {
            **_base(response, "chat.completion"),
            "choices": [choice],
            "usage": _usage(response),
            "prompt_logprobs": _prompt_logprobs(response),
        }

    def to_events(self, response: ModelResponse) -> StreamEvents:
        field = "refusal" if response.stop == "refusal" else "content"
        end = [self.encode_event(_chunk(response, {}, _FINISH[response.stop]))]
        if response.stream_usage:
            end.append(
                self.encode_event(
                    {**_chunk(response, {}), "choices": [], "usage": _usage(response)}
                )
            )
        begin = [self.encode_event(_chunk(response, {"role": "assistant", "content": ""}))]
        if response.thinking:
            begin.append(
                self.encode_event(_chunk(response, {"reasoning_content": response.thinking}))
            )
        if response.logprobs:
            begin.append(
                self.encode_event(_chunk(response, {"content": ""}, logprobs=_logprobs(response)))
            )
        return StreamEvents(
            begin=begin,
            pieces=[
                self.encode_event(_chunk(response, {field: piece}))
                for piece in response.split_text()
            ],
            end=[*end, b"data: [DONE]\n\n"],
        )

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        kind = "BadRequestError" if status == 400 else "InternalServerError"
        return {"error": {"message": message, "type": kind, "param": None, "code": status}}

    def encode_event(self, data: dict[str, Any]) -> bytes:
        return f"data: {json.dumps(data)}\n\n".encode()


def _base(response: ModelResponse, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{response.id}",
        "object": kind,
        "created": 1_767_225_600,  # a recording has no clock: 2026-01-01T00:00:00Z
        "model": response.model,
    }


def _chunk(
    response: ModelResponse,
    delta: dict[str, str],
    finish: str | None = None,
    *,
    logprobs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
    return {**_base(response, "chat.completion.chunk"), "choices": [choice]}


def _logprobs(response: ModelResponse) -> dict[str, Any] | None:
    """The first token with its likeliest alternatives."""
    if not response.logprobs:
        return None
    top = [
        {"token": token, "logprob": value, "bytes": list(token.encode())}
        for token, value in response.logprobs
    ]
    return {"content": [{**top[0], "top_logprobs": top}]}


def _prompt_logprobs(response: ModelResponse) -> list[dict[str, Any] | None] | None:
    """By token id, like vLLM's `PromptLogprobs`; the first token has no probability."""
    if response.prompt_logprobs is None:
        return None
    return [
        {str(at): {"logprob": value, "rank": 1, "decoded_token": ""}} if at else None
        for at, value in enumerate(response.prompt_logprobs)
    ]


def _usage(response: ModelResponse) -> dict[str, Any]:
    counted = response.usage
    prompt = counted.input + counted.cache_read + counted.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": counted.output,
        "total_tokens": prompt + counted.output,
        "prompt_tokens_details": {"cached_tokens": counted.cache_read},
    }
