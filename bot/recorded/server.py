"""The recorded service: both protocols on one port, and a record of what it was asked."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from bot.recorded.anthropic import AnthropicWire
from bot.recorded.batches import MessageBatches
from bot.recorded.cache import BlockCache, PromptCache
from bot.recorded.embeddings import embeddings_answer, embeddings_question
from bot.recorded.openai import OpenAIWire
from bot.recorded.recording import Answer, Recording
from bot.recorded.requests import Asked, BadQuestion, anthropic_question, chat_question
from bot.recorded.responses import Told, Wire, anthropic_models, named, openai_models, tell
from pipeline.models.batches.service import call_of
from pipeline.models.providers.http import CALL_HEADER

MODELS = ("recorded-claude-sonnet-4-6",)
"""What `GET /v1/models` lists; every other name is answered too."""

_AT_ONCE = {"retry-after-ms": "1"}
"""A recording is never really overloaded: nobody need wait for it."""


class Unexpected(NamedTuple):
    """A question that no answer of the recording fits."""

    call: str
    turn: int
    last: str
    """The last user message, whole."""


class RecordedServer:
    """Answers from `recording`; counts tokens as a service with a prompt cache does."""

    def __init__(
        self,
        recording: Recording,
        *,
        key: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        forms: bool = True,
    ) -> None:
        """With a `key`, every other one is refused with 401. Without `forms` it does not know
        `response_format` and `logprobs`, as many a server, and answers 400."""
        self.recording = recording
        self.requests: list[Asked] = []
        """Every question that could be read, oldest first, those answered with errors too."""
        self.unexpected: list[Unexpected] = []
        self.hung_up: list[Asked] = []
        """Those that were not waited for."""
        self._key = key
        self._forms = forms
        self._cache = PromptCache(clock)
        self._blocks = BlockCache()
        self._given: Counter[int] = Counter()
        self._failed: Counter[int] = Counter()
        self._batches = MessageBatches(self._in_batch)

    @property
    def unused(self) -> tuple[Answer, ...]:
        """The answers that were never given."""
        return tuple(a for i, a in enumerate(self.recording.answers) if not self._given[i])

    def app(self) -> FastAPI:
        """The ASGI application; several of them share one state."""
        app = FastAPI(openapi_url=None)
        app.post("/v1/messages")(self._messages)
        app.post("/v1/messages/count_tokens")(self._count_tokens)
        app.post("/v1/messages/batches")(self._new_batch)
        app.get("/v1/messages/batches")(self._all_batches)
        app.get("/v1/messages/batches/{batch_id}")(self._one_batch)
        app.get("/v1/messages/batches/{batch_id}/results")(self._batch_results)
        app.post("/v1/chat/completions")(self._chat)
        app.post("/v1/embeddings")(self._embeddings)
        app.get("/v1/models")(self._models)
        app.get("/metrics")(self._metrics)
        return app

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncGenerator[str]:
        """Serve on the loopback interface; gives the address, without `/v1`. 0: any free port."""
        with socket.create_server(("127.0.0.1", port), backlog=256) as listener:
            config = uvicorn.Config(self.app(), lifespan="off", log_config=None, access_log=False)
            server = _Embedded(config)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                server.should_exit = True
                await serving

    async def _messages(self, request: Request) -> Response:
        return await self._answer(AnthropicWire(), request, anthropic_question)

    async def _chat(self, request: Request) -> Response:
        return await self._answer(OpenAIWire(), request, chat_question)

    async def _embeddings(self, request: Request) -> Response:
        """An answer for the call `embedding` is sent as it stands; without one, vectors are."""
        wire = OpenAIWire()
        if not self._is_allowed(request):
            return _error(wire, 401, "invalid x-api-key")
        try:
            asked = embeddings_question(await request.body(), request.headers)
        except BadQuestion as bad:
            return _error(wire, 400, str(bad))
        self.requests.append(asked)
        chosen = self.recording.choose(asked)
        # `*` is said of chats.
        if chosen is not None and self.recording.answers[chosen].call != "*":
            answer = self._as_now(chosen)
            if answer.status is not None:
                return _error(wire, answer.status, answer.error)
            if answer.reply:
                return Response(answer.reply, media_type="application/json")
        return JSONResponse(embeddings_answer(asked))

    async def _count_tokens(self, request: Request) -> Response:
        wire = AnthropicWire()
        if not self._is_allowed(request):
            return _error(wire, 401, "invalid x-api-key")
        try:
            asked = anthropic_question(await request.body(), request.headers, counting=True)
        except BadQuestion as bad:
            return _error(wire, 400, str(bad))
        counted = PromptCache(time.monotonic).count(asked.model, asked.parts)
        return JSONResponse({"input_tokens": counted.input + counted.cache_write})

    async def _new_batch(self, request: Request) -> Response:
        return await self._batches.create(request) if self._is_allowed(request) else _not_allowed()

    async def _all_batches(self, request: Request, limit: int = 20, after_id: str = "") -> Response:
        allowed = self._is_allowed(request)
        return self._batches.listed(request, limit, after_id) if allowed else _not_allowed()

    async def _one_batch(self, request: Request, batch_id: str) -> Response:
        allowed = self._is_allowed(request)
        return self._batches.retrieve(request, batch_id) if allowed else _not_allowed()

    async def _batch_results(self, request: Request, batch_id: str) -> Response:
        return self._batches.results(batch_id) if self._is_allowed(request) else _not_allowed()

    def _in_batch(self, body: bytes, name: str) -> tuple[dict[str, Any], float]:
        """What comes of one request of a batch, and its delay. `cut` means that the batch expired
        before it."""
        wire = AnthropicWire()
        try:
            asked = anthropic_question(body, {CALL_HEADER.lower(): call_of(name)})
        except BadQuestion as bad:
            return {"type": "errored", "error": wire.error(400, str(bad))}, 0
        answer = self._chosen(asked)
        if answer is None:
            return {"type": "errored", "error": wire.error(400, _nothing(asked))}, 0
        if answer.status is not None:
            error = wire.error(answer.status, answer.error)
            return {"type": "errored", "error": error}, answer.delay
        if answer.cut is not None:
            return {"type": "expired"}, answer.delay
        message = wire.whole(self._told(answer, asked))
        return {"type": "succeeded", "message": message}, answer.delay

    async def _models(self, request: Request) -> Response:
        anthropic = "anthropic-version" in request.headers
        if not self._is_allowed(request):
            return _error(AnthropicWire() if anthropic else OpenAIWire(), 401, "invalid key")
        asked = {named(question.model) for question in self.requests}
        names = [*MODELS, *sorted(asked.difference(MODELS))]
        return JSONResponse(anthropic_models(names) if anthropic else openai_models(names))

    async def _metrics(self) -> Response:
        """The two counters of vLLM's that tell what its prefix cache is worth."""
        counts = {"queries": self._blocks.queries, "hits": self._blocks.hits}
        lines = [f'vllm:prefix_cache_{name}_total{{engine="0"}} {n}' for name, n in counts.items()]
        return PlainTextResponse("\n".join(lines) + "\n")

    def _is_allowed(self, request: Request) -> bool:
        shown = request.headers.get("x-api-key", request.headers.get("authorization", ""))
        return self._key is None or shown.removeprefix("Bearer ") == self._key

    async def _answer(
        self, wire: Wire, request: Request, read: Callable[[bytes, Mapping[str, str]], Asked]
    ) -> Response:
        if not self._is_allowed(request):
            return _error(wire, 401, "invalid x-api-key")
        try:
            asked = read(await request.body(), request.headers)
        except BadQuestion as bad:
            return _error(wire, 400, str(bad))
        unusual = asked.response_format or asked.alternatives or asked.thinking_tokens
        if unusual and not (self._forms or asked.protocol == "anthropic"):
            self.requests.append(asked)
            return _declined(wire, asked)
        answer = self._chosen(asked)
        if answer is None:
            return _error(wire, 400, _nothing(asked))
        if answer.delay and await _hung_up(request, answer.delay):
            self.hung_up.append(asked)
            return Response(status_code=499)  # nobody reads it
        if answer.status is not None and not answer.late:
            return _error(wire, answer.status, answer.error)
        return _response(wire, self._told(answer, asked), answer, stream=asked.stream)

    def _chosen(self, asked: Asked) -> Answer | None:
        """The answer to give now; None, and remembered, where the recording has none."""
        self.requests.append(asked)
        chosen = self.recording.choose(asked)
        if chosen is None:
            self.unexpected.append(Unexpected(asked.call, asked.turn, asked.last))
            return None
        return self._as_now(chosen)

    def _told(self, answer: Answer, asked: Asked) -> Told:
        self._blocks.count(asked.model, asked.parts)
        return tell(answer, asked, self._cache.count(asked.model, asked.parts), len(self.requests))

    def _as_now(self, chosen: int) -> Answer:
        """The answer with its fault, or without when that has happened often enough."""
        answer = self.recording.answers[chosen]
        self._given[chosen] += 1
        fails = answer.status is not None or answer.cut is not None
        if not fails or (answer.times is not None and self._failed[chosen] >= answer.times):
            return answer.model_copy(update={"status": None, "cut": None, "late": False})
        self._failed[chosen] += 1
        return answer


class _Embedded(uvicorn.Server):
    """Leaves SIGINT and SIGTERM to the process that it is a guest of."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class _Dropped(Exception):
    """Breaks a connection from inside a response."""


def _response(wire: Wire, told: Told, answer: Answer, *, stream: bool) -> Response:
    if not stream:
        whole = JSONResponse(wire.whole(told))
        if answer.cut is None:
            return whole
        half = bytes(whole.body)[: len(whole.body) // 2]
        return StreamingResponse(_paced([half], answer), media_type="application/json")
    parts = wire.streamed(told)
    half = parts.pieces[: len(parts.pieces) // 2]
    events = [*parts.begin, *parts.pieces, *parts.end]
    if answer.late and answer.status is not None:
        events = [*parts.begin, *half, wire.event(wire.error(answer.status, answer.error))]
    elif answer.cut is not None:
        events = [*parts.begin, *half]
    return StreamingResponse(_paced(events, answer), media_type="text/event-stream")


async def _paced(chunks: list[bytes], answer: Answer) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk
    if answer.cut == "drop":
        raise _Dropped


async def _hung_up(request: Request, seconds: float) -> bool:
    """Whether who asks goes away before `seconds` have passed; the body has been read."""
    try:
        async with asyncio.timeout(seconds):
            while (await request.receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True


def _nothing(asked: Asked) -> str:
    return f"The recording has no answer for call {asked.call!r}, turn {asked.turn}."


def _error(wire: Wire, status: int, message: str) -> Response:
    return JSONResponse(wire.error(status, message), status_code=status, headers=_AT_ONCE)


def _declined(wire: Wire, asked: Asked) -> Response:
    """As vLLM: a limit on thinking inside the stream, everything else before it."""
    if not (asked.stream and asked.thinking_tokens):
        return _error(wire, 400, "Unrecognized request argument supplied")
    said = wire.error(400, "thinking_token_budget is set but reasoning_config is not configured.")
    return StreamingResponse(iter([wire.event(said)]), media_type="text/event-stream")


def _not_allowed() -> Response:
    return _error(AnthropicWire(), 401, "invalid x-api-key")
