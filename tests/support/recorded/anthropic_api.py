"""Answers and batches in Anthropic's form.

https://platform.claude.com/docs/en/api/messages and .../build-with-claude/streaming

https://platform.claude.com/docs/en/api/creating-message-batches
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tests.support.recorded.responses import ModelResponse, ServiceError, StreamEvents

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


Result = dict[str, Any]
AnswerBatchRequest = Callable[[bytes, str], tuple[Result, float]]
"""Maps one request's parameters and name to the `result` of its line and its delay in seconds."""


class _BatchItem(BaseModel):
    model_config = ConfigDict(frozen=True)

    custom_id: str
    params: dict[str, Any]


class _BatchBody(BaseModel):
    model_config = ConfigDict(frozen=True)

    requests: tuple[_BatchItem, ...] = Field(min_length=1, max_length=100_000)


@dataclass
class _Batch:
    id: str
    lines: list[Result]
    at: str
    polls: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])

    def to_json(self, base_url: str) -> dict[str, Any]:
        ended = self.polls > 1
        kinds = ("canceled", "errored", "expired", "succeeded")
        counts = {kind: self.counts[kind] if ended else 0 for kind in kinds}
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": {**counts, "processing": 0 if ended else len(self.lines)},
            "created_at": self.at,
            "expires_at": self.at,
            "ended_at": self.at if ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{base_url}v1/messages/batches/{self.id}/results" if ended else None,
        }


class MessageBatches:
    """The batches of one service. `answer` answers each request when its batch is created."""

    def __init__(self, answer: AnswerBatchRequest) -> None:
        self._answer = answer
        self._batches: dict[str, _Batch] = {}

    async def create(self, request: Request) -> Response:
        """`POST /v1/messages/batches`; finishes after the longest delay of its answers."""
        try:
            body = _BatchBody.model_validate_json(await request.body())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise _error(400, f"{where}: {first['msg']}") from error
        names = [item.custom_id for item in body.requests]
        if not all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names):
            raise _error(400, "requests.custom_id: String should match '^[a-zA-Z0-9_-]{1,64}$'")
        if len(set(names)) < len(names):
            raise _error(400, "requests: custom_id must be unique within a batch")
        now = datetime.now(UTC).isoformat()
        batch = _Batch(f"msgbatch_recorded_{len(self._batches) + 1}", [], now)
        longest = 0.0
        for item in body.requests:
            result, delay = self._answer(json.dumps(item.params).encode(), item.custom_id)
            longest = max(longest, delay)
            batch.lines.append({"custom_id": item.custom_id, "result": result})
            batch.counts[result["type"]] += 1
        batch.lines.reverse()  # In an arbitrary order, which clients must not rely on.
        self._batches[batch.id] = batch
        await asyncio.sleep(longest)
        return JSONResponse(batch.to_json(str(request.base_url)))

    def list_page(self, request: Request, limit: int = 20, after_id: str = "") -> Response:
        """`GET /v1/messages/batches`: newest first."""
        ids = list(reversed(self._batches))
        rest = ids[ids.index(after_id) + 1 :] if after_id in self._batches else ids
        page = [self._batches[one].to_json(str(request.base_url)) for one in rest[:limit]]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        more = {"has_more": len(rest) > limit, "first_id": None, "last_id": None, **ends}
        return JSONResponse({"data": page, **more})

    def retrieve(self, request: Request, batch_id: str) -> Response:
        """`GET /v1/messages/batches/{batch_id}`"""
        batch = self._batches.get(batch_id)
        if batch is None:
            raise _error(404, "batch not found")
        batch.polls += 1
        return JSONResponse(batch.to_json(str(request.base_url)))

    def results(self, batch_id: str) -> Response:
        """`GET /v1/messages/batches/{batch_id}/results`"""
        batch = self._batches.get(batch_id)
        if batch is None or batch.polls < 2:
            raise _error(404, "results not found")
        lines = "".join(json.dumps(line) + "\n" for line in batch.lines)
        return Response(lines, media_type="application/x-jsonl")


def _error(status: int, message: str) -> ServiceError:
    return ServiceError(AnthropicEncoder(), status, message)
