"""Both protocols on one port, as streams: the Anthropic API, and chat completions as of vLLM.

https://platform.claude.com/docs/en/build-with-claude/streaming and
https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from bot.server.connections import serve_app
from capuchin_demo.recorded.prompt_cache import PromptCache, count_tokens
from capuchin_demo.recorded.recording import Question, Recording, read_question
from pipeline.data.types import Usage
from pipeline.models.providers.provider_http import CALL_HEADER
from sandbox.frozen import replace

Json = dict[str, Any]

MODEL = "recorded-claude-sonnet-4-6"
SCOUT = "recorded-qwen2.5-coder-32b-instruct"
"""Named as recorded, as nobody shall think that they have answered."""


class RecordedServer:
    """Answers from `recording`; counts tokens like a service with a prompt cache."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._cache = PromptCache(time.monotonic)

    @asynccontextmanager
    async def serve(self, host: str) -> AsyncGenerator[str]:
        """Serve on a free port until the block ends; yields the address without `/v1`."""
        app = Starlette(
            routes=[
                Route("/v1/messages", self._answer_message, methods=["POST"]),
                Route("/v1/chat/completions", self._answer_chat, methods=["POST"]),
                Route("/v1/models", self._list_models),
            ]
        )
        async with serve_app(app, host, 0) as address:
            yield address

    async def _answer_message(self, request: Request) -> Response:
        question = await _read(request)
        reply = self._find_reply(question)
        if reply is None:
            error = {"type": "invalid_request_error", "message": _no_answer(question)}
            return JSONResponse({"type": "error", "error": error}, 400)
        events = _anthropic_events(question, reply, self._count(question, reply))
        return _stream(f"event: {data['type']}\ndata: {json.dumps(data)}\n\n" for data in events)

    async def _answer_chat(self, request: Request) -> Response:
        question = await _read(request)
        reply = self._find_reply(question)
        if reply is None:
            error = {"message": _no_answer(question), "type": "BadRequestError", "code": 400}
            return JSONResponse({"error": error}, 400)
        # vLLM caches every prefix.
        question = question._replace(parts=[p._replace(marked=True) for p in question.parts])
        chunks = _chat_chunks(question, reply, self._count(question, reply))
        sent = [*map(json.dumps, chunks), "[DONE]"]
        return _stream(f"data: {data}\n\n" for data in sent)

    async def _list_models(self, request: Request) -> Response:
        del request
        data = [{"id": name, "object": "model", "type": "model"} for name in (MODEL, SCOUT)]
        return JSONResponse({"object": "list", "data": data, "has_more": False})

    def _find_reply(self, question: Question) -> str | None:
        fitting = (one.reply for one in self.recording.answers if one.matches(question))
        return next(fitting, None)

    def _count(self, question: Question, reply: str) -> Usage:
        prompt = self._cache.count_usage(question.model, question.parts)
        return replace(prompt, output=count_tokens(reply))


async def _read(request: Request) -> Question:
    return read_question(request.headers.get(CALL_HEADER, ""), await request.json())


def _stream(events: Iterable[str]) -> Response:
    return StreamingResponse(iter(events), media_type="text/event-stream")


def _no_answer(question: Question) -> str:
    return f"The recording has no answer for call {question.call!r}, turn {question.turn}."


def _anthropic_events(question: Question, reply: str, usage: Usage) -> list[Json]:
    counted = {
        "input_tokens": usage.input,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": 1,
    }
    message: Json = {"id": "msg_recorded", "type": "message", "role": "assistant", "content": []}
    message |= {"model": question.model, "stop_reason": None, "usage": counted}
    delta = {"type": "text_delta", "text": reply}
    end: Json = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": usage.output}},
        {"type": "message_stop"},
    ]


def _chat_chunks(question: Question, reply: str, usage: Usage) -> list[Json]:
    base: Json = {"id": "chatcmpl-recorded", "object": "chat.completion.chunk", "created": 0}
    base |= {"model": question.model}
    prompt = usage.input + usage.cache_read + usage.cache_write
    counted = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    }
    delta = {"role": "assistant", "content": reply}
    return [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**base, "choices": [], "usage": counted},
    ]
