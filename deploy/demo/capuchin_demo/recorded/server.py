"""Both protocols on one port, and a record of all requests."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from bot.server.connections import serve_app
from capuchin_demo.recorded.anthropic_api import AnthropicEncoder
from capuchin_demo.recorded.openai_api import OpenAIEncoder
from capuchin_demo.recorded.prompt_cache import PromptCache
from capuchin_demo.recorded.recording import (
    InvalidModelRequest,
    ReceivedRequest,
    RecordedAnswer,
    Recording,
    parse_anthropic_request,
    parse_chat_request,
)
from capuchin_demo.recorded.responses import (
    BlockCache,
    ModelResponse,
    ResponseEncoder,
    ServiceError,
    answering_name,
    anthropic_model_list,
    build_response,
    openai_model_list,
)
from pipeline.models.providers.provider_http import DOCTOR_CALL
from sandbox.frozen import replace


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


def decline(received: ReceivedRequest) -> Response:
    """Reject a request like vLLM: a thinking limit inside the stream, all else before it."""
    encoder = OpenAIEncoder()
    if not (received.stream and received.thinking_tokens):
        raise ServiceError(encoder, 400, "Unrecognized request argument supplied")
    error_body = encoder.error_body(
        400, "thinking_token_budget is set but reasoning_config is not configured."
    )
    return StreamingResponse(
        iter([encoder.encode_event(error_body)]), media_type="text/event-stream"
    )


async def answer_error(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, ServiceError)
    body = error.encoder.error_body(error.status, str(error))
    # A recording is never really overloaded, so clients need not wait.
    return JSONResponse(body, status_code=error.status, headers={"retry-after-ms": "1"})


MODEL = "recorded-claude-sonnet-4-6"
SCOUT = "recorded-qwen2.5-coder-32b-instruct"
"""Named as recorded, as nobody shall think that they have answered."""


class UnexpectedRequest(NamedTuple):
    """A request that no answer of the recording matches."""

    call: str
    turn: int
    last_user_message: str
    """The whole last user message."""


Parse = Callable[[bytes, Mapping[str, str]], ReceivedRequest]
"""Reads a request from its body and headers. Raises InvalidModelRequest."""


class RecordedServer:
    """Answers from `recording`; counts tokens like a service with a prompt cache."""

    def __init__(
        self,
        recording: Recording,
        *,
        key: str | None = None,
        windows: Mapping[str, int | str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        extensions: bool = True,
    ) -> None:
        """With a `key`, requests with another key get 401. Without `extensions`, the service
        rejects `response_format` and `logprobs` with 400, like many servers. `windows` are the
        models that it lists, with their windows in tokens, as vLLM lists them; an adapter
        has the name of its model in place of a window.
        """
        self.recording = recording
        self.requests: list[ReceivedRequest] = []
        """Every readable request, oldest first, including those that got an error."""
        self.unexpected: list[UnexpectedRequest] = []
        self.disconnected: list[ReceivedRequest] = []
        """Requests whose client disconnected early."""
        self._key = key
        self._windows = windows or {}
        self._extensions = extensions
        self._cache = PromptCache(clock)
        self._block_cache = BlockCache()
        self._fault_counts: Counter[int] = Counter()

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[str]:
        """Serve on a free port of the loopback; yields the address without `/v1`."""
        routes = [
            Route("/v1/messages", self._handle_messages, methods=["POST"]),
            Route("/v1/chat/completions", self._handle_chat, methods=["POST"]),
            Route("/v1/models", self._list_models),
            Route("/metrics", self._show_metrics),
        ]
        app = Starlette(routes=routes, exception_handlers={ServiceError: answer_error})
        async with serve_app(app, "127.0.0.1", 0) as url:
            yield url

    async def _handle_messages(self, request: Request) -> Response:
        return await self._handle(AnthropicEncoder(), request, parse_anthropic_request)

    async def _handle_chat(self, request: Request) -> Response:
        return await self._handle(OpenAIEncoder(), request, parse_chat_request)

    async def _list_models(self, request: Request) -> Response:
        anthropic = "anthropic-version" in request.headers
        self._check_key(request, AnthropicEncoder() if anthropic else OpenAIEncoder())
        received = {answering_name(question.model) for question in self.requests}
        names = [MODEL, *sorted(received - {MODEL})]
        if anthropic:
            return JSONResponse(anthropic_model_list(names))
        return JSONResponse(openai_model_list([*self._windows] or names, self._windows))

    async def _show_metrics(self, request: Request) -> Response:
        """vLLM's two counters on the efficiency of its prefix cache."""
        del request
        counts = {"queries": self._block_cache.queries, "hits": self._block_cache.hits}
        lines = [f'vllm:prefix_cache_{name}_total{{engine="0"}} {n}' for name, n in counts.items()]
        return PlainTextResponse("\n".join(lines) + "\n")

    def _check_key(self, request: Request, encoder: ResponseEncoder) -> None:
        shown = request.headers.get("x-api-key", request.headers.get("authorization", ""))
        if self._key is not None and shown.removeprefix("Bearer ") != self._key:
            raise ServiceError(encoder, 401, "invalid x-api-key")

    async def _read(
        self, encoder: ResponseEncoder, request: Request, parse: Parse
    ) -> ReceivedRequest:
        self._check_key(request, encoder)
        try:
            return parse(await request.body(), request.headers)
        except InvalidModelRequest as bad:
            raise ServiceError(encoder, 400, str(bad)) from bad

    async def _handle(self, encoder: ResponseEncoder, request: Request, parse: Parse) -> Response:
        received = await self._read(encoder, request, parse)
        unusual = received.response_format or received.alternatives or received.thinking_tokens
        if unusual and not (self._extensions or received.protocol == "anthropic"):
            self.requests.append(received)
            return decline(received)
        answer = self._choose_answer(received)
        if answer is None:
            raise ServiceError(encoder, 400, no_answer_message(received))
        if answer.delay and await wait_for_disconnect(request, answer.delay):
            self.disconnected.append(received)
            return Response(status_code=499)  # the client is gone
        if answer.status is not None and not answer.late:
            raise ServiceError(encoder, answer.status, answer.error)
        return to_http_response(
            encoder, self._build_response(answer, received), answer, stream=received.stream
        )

    def _choose_answer(self, received: ReceivedRequest) -> RecordedAnswer | None:
        """The answer to use; None, and recorded as unexpected, if none matches."""
        self.requests.append(received)
        chosen = self.recording.choose(received)
        if chosen is None and received.call == DOCTOR_CALL:  # few recordings have its question
            return RecordedAnswer(call=DOCTOR_CALL, turn=0, reply="ok")
        if chosen is None:
            self.unexpected.append(
                UnexpectedRequest(received.call, received.turn, received.last_user_message)
            )
            return None
        return self._apply_fault(chosen)

    def _build_response(self, answer: RecordedAnswer, received: ReceivedRequest) -> ModelResponse:
        self._block_cache.add(received.model, received.parts)
        return build_response(
            answer,
            received,
            self._cache.count_usage(received.model, received.parts),
            len(self.requests),
        )

    def _apply_fault(self, chosen: int) -> RecordedAnswer:
        """The answer with its fault, or without it after `times` faults."""
        answer = self.recording.answers[chosen]
        fails = answer.status is not None or answer.cut is not None
        if not fails or (answer.times is not None and self._fault_counts[chosen] >= answer.times):
            return replace(answer, status=None, cut=None, late=False)
        self._fault_counts[chosen] += 1
        return answer
