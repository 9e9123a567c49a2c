"""Answers in Anthropic's form.

https://platform.claude.com/docs/en/api/messages and .../build-with-claude/streaming
"""

import json
from typing import Any

from capuchin_demo.recorded.responses import ModelResponse, StreamEvents

_STOP = {
    "end": "end_turn",
    "length": "max_tokens",
    "refusal": "refusal",
    "context": "model_context_window_exceeded",
}


class AnthropicEncoder:
    def to_json(self, response: ModelResponse) -> dict[str, Any]:
        block = {"type": "thinking", "thinking": response.thinking, "signature": "recorded"}
        return {
            **_message(response),
            "content": [
                *([block] if response.thinking else []),
                *([{"type": "text", "text": response.text}] if response.text else []),
            ],
            "stop_reason": _STOP[response.stop],
            "usage": _usage(response, response.usage.output),
        }

    def to_events(self, response: ModelResponse) -> StreamEvents:
        start = {"type": "message_start", "message": _message(response)}
        at = 1 if response.thinking else 0
        block = {"type": "text", "text": ""}
        finish = {"stop_reason": _STOP[response.stop], "stop_sequence": None}
        begin = [
            start,
            *_thinking_events(response),
            {"type": "content_block_start", "index": at, "content_block": block},
            {"type": "ping"},
        ]
        end = [
            {"type": "content_block_stop", "index": at},
            {
                "type": "message_delta",
                "delta": finish,
                "usage": {"output_tokens": response.usage.output},
            },
            {"type": "message_stop"},
        ]
        pieces = [
            {
                "type": "content_block_delta",
                "index": at,
                "delta": {"type": "text_delta", "text": piece},
            }
            for piece in response.split_text()
        ]
        return StreamEvents(
            *([self.encode_event(data) for data in part] for part in (begin, pieces, end))
        )

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        kind = {
            400: "invalid_request_error",
            401: "authentication_error",
            402: "billing_error",
            403: "permission_error",
            404: "not_found_error",
            413: "request_too_large",
            429: "rate_limit_error",
            504: "timeout_error",
            529: "overloaded_error",
        }.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def encode_event(self, data: dict[str, Any]) -> bytes:
        return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def _thinking_events(response: ModelResponse) -> list[dict[str, Any]]:
    """The events of the thinking block, which precedes the text."""
    block = {"type": "thinking", "thinking": "", "signature": ""}
    deltas: list[dict[str, Any]] = [
        {"type": "thinking_delta", "thinking": response.thinking},
        {"type": "signature_delta", "signature": "recorded"},
    ]
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
    ]
    return events if response.thinking else []


def _message(response: ModelResponse) -> dict[str, Any]:
    return {
        "id": response.id,
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(response, 1),
    }


def _usage(response: ModelResponse, output: int) -> dict[str, Any]:
    written = response.usage.cache_write
    return {
        "input_tokens": response.usage.input,
        "output_tokens": output,
        "cache_read_input_tokens": response.usage.cache_read,
        "cache_creation_input_tokens": written,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }
