"""The Anthropic SDK behind `Model`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import anthropic
import httpx2
from anthropic import types
from anthropic.types import (
    CacheControlEphemeralParam,
    ImageBlockParam,
    MessageParam,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStreamEvent,
    TextBlockParam,
    ThinkingConfigEnabledParam,
)
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from anthropic.types.messages import (
    MessageBatchErroredResult,
    MessageBatchIndividualResponse,
    MessageBatchSucceededResult,
)
from anthropic.types.messages.batch_create_params import Request

from pipeline.data.types import Picture, Usage
from pipeline.models.base import (
    HOUR,
    ContextTooLong,
    Message,
    ModelError,
    ModelMisconfigured,
    ModelProfile,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    Reply,
)
from pipeline.models.batches import SubmittedBatch
from pipeline.models.providers.provider_http import (
    Endpoint,
    ProviderClient,
    call_headers,
    error_for_status,
    event_hooks,
    keep_usage_on_cancel,
    replace_surrogates,
    ssl_context,
    validate_key,
)
from sandbox.frozen import replace


@dataclass
class AnthropicStreamState:
    """What a stream has delivered so far."""

    model: str = ""
    text: list[str] = field(default_factory=list[str])
    thinking: list[str] = field(default_factory=list[str])
    usage: Usage | None = None
    stop_reason: str | None = None

    def add_event(self, event: RawMessageStreamEvent) -> None:
        match event.type:
            case "message_start":
                self._start(event)
            case "content_block_start" if event.content_block.type == "text":
                self.text.append(event.content_block.text)
            case "content_block_delta" if event.delta.type == "text_delta":
                self.text.append(event.delta.text)
            case "content_block_start" if event.content_block.type == "thinking":
                self.thinking.append(event.content_block.thinking)
            case "content_block_delta" if event.delta.type == "thinking_delta":
                self.thinking.append(event.delta.thinking)
            case "message_delta":
                self._finish(event)
            case _:
                pass  # signatures, block ends, and whatever is invented next

    def add_message(self, answer: types.Message) -> None:
        """Add a reply that was not streamed, such as a batch's."""
        self.model, self.stop_reason = answer.model, answer.stop_reason
        for part in answer.content:
            if part.type == "text":
                self.text.append(part.text)
            elif part.type == "thinking":
                self.thinking.append(part.thinking)
        self.usage = _to_usage(answer.usage)

    def _start(self, event: RawMessageStartEvent) -> None:
        self.model = event.message.model
        self.usage = _to_usage(event.message.usage)

    def _finish(self, event: RawMessageDeltaEvent) -> None:
        self.stop_reason = event.delta.stop_reason or self.stop_reason
        before, counted = self.usage or Usage(), event.usage
        # Cumulative counts; what is left out has not changed since the start.
        self.usage = Usage(
            input=_count_or(counted.input_tokens, before.input),
            output=counted.output_tokens,
            cache_read=_count_or(counted.cache_read_input_tokens, before.cache_read),
            cache_write=_count_or(counted.cache_creation_input_tokens, before.cache_write),
        )


def request_params(profile: ModelProfile, request: ModelRequest) -> MessageCreateParamsNonStreaming:
    """`question` with cache marks that keep what is read as long as the profile says."""
    mark: CacheControlEphemeralParam = {"type": "ephemeral"}  # kept five minutes
    if profile.cache_seconds == HOUR:
        mark["ttl"] = "1h"
    params = MessageCreateParamsNonStreaming(
        model=profile.name,
        messages=_with_cache_marks(request.messages, mark),
        max_tokens=request.max_tokens or profile.max_output,
    )
    if request.system:
        params["system"] = [_text_block(request.system, mark)]
    if thinking := _thinking_params(profile, request):
        params["thinking"] = thinking
    return params


def _to_usage(counted: types.Usage) -> Usage:
    return Usage(
        input=counted.input_tokens,
        output=counted.output_tokens,
        cache_read=counted.cache_read_input_tokens or 0,
        cache_write=counted.cache_creation_input_tokens or 0,
    )


def _thinking_params(
    profile: ModelProfile, request: ModelRequest
) -> ThinkingConfigEnabledParam | None:
    """The thinking budget; None where it would leave no room for a reply.

    https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    """
    longest = request.max_tokens or profile.max_output
    if not profile.thinking_tokens or longest <= profile.thinking_tokens:
        return None
    return {"type": "enabled", "budget_tokens": profile.thinking_tokens}


def _count_or(count: int | None, otherwise: int) -> int:
    return otherwise if count is None else count


def _text_block(text: str, mark: CacheControlEphemeralParam | None) -> TextBlockParam:
    block = TextBlockParam(type="text", text=replace_surrogates(text))
    if mark is not None:
        block["cache_control"] = mark
    return block


def _picture_block(picture: Picture) -> ImageBlockParam:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": picture.media_type, "data": picture.base64},
    }


def _with_cache_marks(
    messages: Sequence[Message], mark: CacheControlEphemeralParam
) -> list[MessageParam]:
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    # The opening has a mark of its own: where old results are left out, only it is repeated. With
    # the system text's mark that makes four, the most that are allowed.
    # The last but one mark is the one the previous turn wrote, so this turn reads it.
    # https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    last = {*users[:1], *users[-2:]}
    turns: list[MessageParam] = []
    for i, message in enumerate(messages):
        text = _text_block(message.text, mark if i in last else None)
        if message.role == "user":
            pictures = [_picture_block(picture) for picture in message.pictures]
            turns.append({"role": "user", "content": [*pictures, text]})
        else:
            turns.append({"role": "assistant", "content": [text]})
    return turns


PUBLIC_URL = "https://api.anthropic.com"

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""An error inside a stream comes after the 200. https://platform.claude.com/docs/en/api/errors"""

_SDK_ERRORS = (anthropic.APIError, httpx2.TransportError, json.JSONDecodeError)
_TOO_LONG = ("prompt is too long", "exceed context limit")


class AnthropicModel(ProviderClient):
    """`Model` over `POST {base_url}/v1/messages`. Close it with `aclose()`.

    Thinking is kept apart from the reply, and never sent back. Also implements
    `pipeline.models.batches.BatchService`.
    """

    def __init__(self, profile: ModelProfile, endpoint: Endpoint) -> None:
        """Raises ModelMisconfigured when the endpoint's key is unusable."""
        super().__init__(profile, endpoint.base_url)
        # With key and address given, the SDK looks for neither in the environment or a profile.
        self._client = anthropic.AsyncAnthropic(
            api_key=validate_key(self.service, endpoint.api_key),
            base_url=endpoint.base_url,
            http_client=anthropic.DefaultAsyncHttpxClient(
                verify=ssl_context(), event_hooks=event_hooks()
            ),
            timeout=endpoint.timeout,
            max_retries=endpoint.sdk_retries,
            open_telemetry=False,
        )

    async def aclose(self) -> None:
        await self._client.close()

    async def complete(self, request: ModelRequest) -> Reply:
        state = AnthropicStreamState()
        try:
            with keep_usage_on_cancel(state):
                await self._stream(state, request)
        except _SDK_ERRORS as error:
            raise self._translate_error(error, state.usage) from error
        return self._build_reply(state)

    async def submit(self, requests: Mapping[str, ModelRequest]) -> str:
        """See `BatchService`. https://platform.claude.com/docs/en/build-with-claude/batch-processing"""
        # The SDK would send it a second time where only the answer was lost, and both are paid.
        once = self._client.with_options(max_retries=0)
        try:
            batch = await once.messages.batches.create(
                requests=[
                    Request(custom_id=name, params=request_params(self._profile, request))
                    for name, request in requests.items()
                ]
            )
        except _SDK_ERRORS as error:
            raise self._translate_error(error, None) from error
        return batch.id

    async def list_batches(self, since: datetime, until: datetime) -> list[SubmittedBatch]:
        """See `BatchService`. https://platform.claude.com/docs/en/api/listing-message-batches"""
        found: list[SubmittedBatch] = []
        try:
            async for batch in self._client.messages.batches.list(limit=100):
                if batch.created_at < since:
                    break
                if batch.created_at <= until:
                    counts = batch.request_counts.model_dump().values()
                    found.append(SubmittedBatch(batch.id, batch.created_at, sum(counts)))
        except _SDK_ERRORS as error:
            raise self._translate_error(error, None) from error
        return found

    async def fetch_results(self, batch: str) -> dict[str, Reply | ModelError] | None:
        try:
            state = await self._client.messages.batches.retrieve(batch)
            if state.processing_status != "ended":
                return None
            results = await self._client.messages.batches.results(batch)
            return {one.custom_id: self._batch_result(one) async for one in results}
        except _SDK_ERRORS as error:
            raise self._translate_error(error, None) from error

    def _batch_result(self, one: MessageBatchIndividualResponse) -> Reply | ModelError:
        match one.result:
            case MessageBatchSucceededResult() as done:
                state = AnthropicStreamState()
                state.add_message(done.message)
                try:
                    return replace(self._build_reply(state), batched=True)
                except ModelError as error:
                    return error
            case MessageBatchErroredResult() as failed:
                error = failed.error.error
                return self._error_of_status(
                    _STATUS_OF_TYPE.get(str(error.type), 500), error.message
                )
            case other:
                return ModelUnavailable(f"{self.service} has {other.type} what was asked in batch.")

    async def _stream(self, state: AnthropicStreamState, request: ModelRequest) -> None:
        params = request_params(self._profile, request)
        sampled = self._profile.sampling and request.temperature is not None
        stream = await self._client.messages.create(
            model=params["model"],
            messages=params["messages"],
            max_tokens=params["max_tokens"],
            system=params.get("system", anthropic.omit),
            thinking=params.get("thinking", anthropic.omit),
            stream=True,
            extra_headers=call_headers(request.call),
            extra_body={"temperature": request.temperature} if sampled else None,
        )
        async with stream:
            if not stream.response.headers.get("content-type", "").startswith("text/event-stream"):
                raise ModelMisconfigured(f"{self.service} does not speak Anthropic's protocol.")
            async for event in stream:
                state.add_event(event)

    def _build_reply(self, state: AnthropicStreamState) -> Reply:
        match state.stop_reason:
            case None:
                raise ModelUnavailable(f"{self.service} stopped in mid-answer.", state.usage)
            case "refusal":
                raise ModelRefused(f"{self.service} declined to answer.", state.usage)
            case "model_context_window_exceeded":
                raise ContextTooLong(
                    f"The conversation is too long for {self.service}.", state.usage
                )
            case reason:
                return Reply(
                    text=replace_surrogates("".join(state.text)),
                    thinking=replace_surrogates("".join(state.thinking)),
                    usage=state.usage or Usage(),
                    model=replace_surrogates(state.model),
                    stopped="length" if reason == "max_tokens" else "end",
                )

    def _translate_error(self, error: Exception, usage: Usage | None) -> ModelError:
        if not isinstance(error, anthropic.APIStatusError):
            return ModelUnavailable(f"{self.service} cannot be reached, or hung up.", usage)
        status = error.status_code
        if status < 300:
            status = _STATUS_OF_TYPE.get(str(error.type), 500)
        mapped = self._error_of_status(status, error.api_message or "")
        mapped.usage = usage
        return mapped

    def _error_of_status(self, status: int, message: str) -> ModelError:
        too_long = any(words in message.lower() for words in _TOO_LONG)
        return error_for_status(self.service, status, too_long=too_long)
