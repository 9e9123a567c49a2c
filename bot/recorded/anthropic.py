"""Answers as Anthropic's Messages API gives them.

https://platform.claude.com/docs/en/api/messages and .../build-with-claude/streaming
"""

from __future__ import annotations

import json
from typing import Any

from bot.recorded.responses import Streamed, Told

_STOP = {
    "end": "end_turn",
    "length": "max_tokens",
    "refusal": "refusal",
    "context": "model_context_window_exceeded",
}

_ERROR_TYPE = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicWire:
    def whole(self, told: Told) -> dict[str, Any]:
        return {
            **_message(told),
            "content": [
                *_thought(told),
                *([{"type": "text", "text": told.text}] if told.text else []),
            ],
            "stop_reason": _STOP[told.stop],
            "usage": _usage(told, told.usage.output),
        }

    def streamed(self, told: Told) -> Streamed:
        start = {"type": "message_start", "message": _message(told)}
        at = 1 if told.thinking else 0
        block = {"type": "text", "text": ""}
        finish = {"stop_reason": _STOP[told.stop], "stop_sequence": None}
        begin = [
            start,
            *_thinking(told),
            {"type": "content_block_start", "index": at, "content_block": block},
            {"type": "ping"},
        ]
        end = [
            {"type": "content_block_stop", "index": at},
            {
                "type": "message_delta",
                "delta": finish,
                "usage": {"output_tokens": told.usage.output},
            },
            {"type": "message_stop"},
        ]
        pieces = [
            {
                "type": "content_block_delta",
                "index": at,
                "delta": {"type": "text_delta", "text": piece},
            }
            for piece in told.pieces()
        ]
        return Streamed(*([self.event(data) for data in part] for part in (begin, pieces, end)))

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = _ERROR_TYPE.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def event(self, data: dict[str, Any]) -> bytes:
        return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def _thought(told: Told) -> list[dict[str, Any]]:
    block = {"type": "thinking", "thinking": told.thinking, "signature": "recorded"}
    return [block] if told.thinking else []


def _thinking(told: Told) -> list[dict[str, Any]]:
    """The events of the block that comes before the text."""
    block = {"type": "thinking", "thinking": "", "signature": ""}
    deltas: list[dict[str, Any]] = [
        {"type": "thinking_delta", "thinking": told.thinking},
        {"type": "signature_delta", "signature": "recorded"},
    ]
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
    ]
    return events if told.thinking else []


def _message(told: Told) -> dict[str, Any]:
    return {
        "id": told.id,
        "type": "message",
        "role": "assistant",
        "model": told.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(told, 1),
    }


def _usage(told: Told, output: int) -> dict[str, Any]:
    written = told.usage.cache_write
    return {
        "input_tokens": told.usage.input,
        "output_tokens": output,
        "cache_read_input_tokens": told.usage.cache_read,
        "cache_creation_input_tokens": written,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }
