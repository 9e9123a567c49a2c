"""The HTTP side of a recorded response: streams, delays, faults and errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from bot.recorded.anthropic import AnthropicEncoder
from bot.recorded.recording import RecordedAnswer
from bot.recorded.requests import (
    ReceivedRequest,
)
from bot.recorded.responses import (
    ModelResponse,
    ResponseEncoder,
)

RETRY_AT_ONCE = {"retry-after-ms": "1"}
"""A recording is never really overloaded, so clients need not wait."""


class ConnectionDropped(Exception):
    """Breaks a connection from inside a response."""


def to_http_response(
    encoder: ResponseEncoder, response: ModelResponse, answer: RecordedAnswer, *, stream: bool
) -> Response:
    if not stream:
        whole = JSONResponse(encoder.to_json(response))
        if answer.cut is None:
            return whole
        half = bytes(whole.body)[: len(whole.body) // 2]
        return StreamingResponse(send_chunks([half], answer), media_type="application/json")
    parts = encoder.to_events(response)
    half = parts.pieces[: len(parts.pieces) // 2]
    events = [*parts.begin, *parts.pieces, *parts.end]
    if answer.late and answer.status is not None:
        events = [
            *parts.begin,
            *half,
            encoder.encode_event(encoder.error_body(answer.status, answer.error)),
        ]
    elif answer.cut is not None:
        events = [*parts.begin, *half]
    return StreamingResponse(send_chunks(events, answer), media_type="text/event-stream")


async def send_chunks(chunks: list[bytes], answer: RecordedAnswer) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk
    if answer.cut == "drop":
        raise ConnectionDropped


async def wait_for_disconnect(request: Request, seconds: float) -> bool:
    """Whether the client disconnects within `seconds`; the body has been read."""
    try:
        async with asyncio.timeout(seconds):
            while (await request.receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True


def no_answer_message(received: ReceivedRequest) -> str:
    return f"The recording has no answer for call {received.call!r}, turn {received.turn}."


def error_response(encoder: ResponseEncoder, status: int, message: str) -> Response:
    return JSONResponse(
        encoder.error_body(status, message), status_code=status, headers=RETRY_AT_ONCE
    )


def decline(encoder: ResponseEncoder, received: ReceivedRequest) -> Response:
    """Reject a request like vLLM: a thinking limit inside the stream, all else before it."""
    if not (received.stream and received.thinking_tokens):
        return error_response(encoder, 400, "Unrecognized request argument supplied")
    error_body = encoder.error_body(
        400, "thinking_token_budget is set but reasoning_config is not configured."
    )
    return StreamingResponse(
        iter([encoder.encode_event(error_body)]), media_type="text/event-stream"
    )


def deny_access() -> Response:
    return error_response(AnthropicEncoder(), 401, "invalid x-api-key")
