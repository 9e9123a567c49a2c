"""The Anthropic SDK behind `Model`: streamed, with cache marks, and with its errors as ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import anthropic
import httpx2
from anthropic.types import (
    CacheControlEphemeralParam,
    MessageParam,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStreamEvent,
    TextBlockParam,
)

from pipeline.models.base import (
    ContextTooLong,
    Message,
    ModelError,
    ModelMisconfigured,
    ModelProfile,
    ModelRefused,
    ModelUnavailable,
    Reply,
    Usage,
)
from pipeline.models.cache_life import HOUR
from pipeline.models.wire import (
    CONNECT_SECONDS,
    SDK_RETRIES,
    SILENCE_SECONDS,
    call_headers,
    checked_key,
    failure,
    sendable,
)

PUBLIC_URL = "https://api.anthropic.com"

MARKED_USER_MESSAGES = 2
"""The last but one is the mark that the previous turn wrote, so that this turn reads it.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

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

_SHORT: CacheControlEphemeralParam = {"type": "ephemeral"}  # kept five minutes
_LONG: CacheControlEphemeralParam = {"type": "ephemeral", "ttl": "1h"}

_TOO_LONG = ("prompt is too long", "exceed context limit")


class AnthropicModel:
    """`Model` over `POST {base_url}/v1/messages`. Close it with `aclose()`."""

    def __init__(
        self,
        profile: ModelProfile,
        *,
        api_key: str,
        base_url: str = PUBLIC_URL,
        silence_seconds: float = SILENCE_SECONDS,
        sdk_retries: int = SDK_RETRIES,
    ) -> None:
        """Raises ModelMisconfigured when `api_key` is no key."""
        self._profile = profile
        self._service = f"{profile.provider}:{profile.name} at {urlsplit(base_url).hostname}"
        # With key and address given, the SDK looks for neither in the environment or a profile.
        self._client = anthropic.AsyncAnthropic(
            api_key=checked_key(self._service, api_key),
            base_url=base_url,
            timeout=httpx2.Timeout(silence_seconds, connect=CONNECT_SECONDS),
            max_retries=sdk_retries,
            open_telemetry=False,
        )

    @property
    def profile(self) -> ModelProfile:
        return self._profile

    async def aclose(self) -> None:
        await self._client.close()

    async def complete(
        self,
        system: str,
        messages: Sequence[Message],
        *,
        call: str,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Reply:
        """See `Model.complete`."""
        heard = _Heard()
        try:
            await self._listen(heard, system, messages, call, temperature, max_tokens)
        except anthropic.APIStatusError as error:
            raise self._failure(error, heard.usage) from error
        except (anthropic.APIError, httpx2.TransportError, json.JSONDecodeError) as error:
            raise ModelUnavailable(
                f"{self._service} cannot be reached, or hung up.", heard.usage
            ) from error
        return self._reply(heard)

    async def _listen(
        self,
        heard: _Heard,
        system: str,
        messages: Sequence[Message],
        call: str,
        temperature: float | None,
        max_tokens: int | None,
    ) -> None:
        sampled = self._profile.sampling and temperature is not None
        mark = _LONG if self._profile.cache_seconds == HOUR else _SHORT
        stream = await self._client.messages.create(
            model=self._profile.name,
            system=[_block(system, mark)] if system else anthropic.omit,
            messages=_marked(messages, mark),
            max_tokens=max_tokens or self._profile.max_output,
            stream=True,
            extra_headers=call_headers(call),
            extra_body={"temperature": temperature} if sampled else None,
        )
        async with stream:
            if not stream.response.headers.get("content-type", "").startswith("text/event-stream"):
                raise ModelMisconfigured(f"{self._service} does not speak Anthropic's protocol.")
            async for event in stream:
                heard.hear(event)

    def _reply(self, heard: _Heard) -> Reply:
        match heard.stop_reason:
            case None:
                raise ModelUnavailable(f"{self._service} stopped in mid-answer.", heard.usage)
            case "refusal":
                raise ModelRefused(f"{self._service} declined to answer.", heard.usage)
            case "model_context_window_exceeded":
                raise ContextTooLong(
                    f"The conversation is too long for {self._service}.", heard.usage
                )
            case reason:
                return Reply(
                    text=sendable("".join(heard.text)),
                    usage=heard.usage or Usage(),
                    model=sendable(heard.model),
                    stopped="length" if reason == "max_tokens" else "end",
                )

    def _failure(self, error: anthropic.APIStatusError, usage: Usage | None) -> ModelError:
        status = error.status_code
        if status < 400:
            status = _STATUS_OF_TYPE.get(str(error.type), 500)
        said = (error.api_message or "").lower()
        mapped = failure(self._service, status, too_long=any(words in said for words in _TOO_LONG))
        mapped.usage = usage
        return mapped


@dataclass
class _Heard:
    """What a stream has said so far."""

    model: str = ""
    text: list[str] = field(default_factory=list[str])
    usage: Usage | None = None
    stop_reason: str | None = None

    def hear(self, event: RawMessageStreamEvent) -> None:
        match event.type:
            case "message_start":
                self._start(event)
            case "content_block_start" if event.content_block.type == "text":
                self.text.append(event.content_block.text)
            case "content_block_delta" if event.delta.type == "text_delta":
                self.text.append(event.delta.text)
            case "message_delta":
                self._finish(event)
            case _:
                pass  # thinking, block ends, and whatever is invented next

    def _start(self, event: RawMessageStartEvent) -> None:
        self.model = event.message.model
        counted = event.message.usage
        self.usage = Usage(
            input=counted.input_tokens,
            output=counted.output_tokens,
            cache_read=counted.cache_read_input_tokens or 0,
            cache_write=counted.cache_creation_input_tokens or 0,
        )

    def _finish(self, event: RawMessageDeltaEvent) -> None:
        self.stop_reason = event.delta.stop_reason or self.stop_reason
        before, counted = self.usage or Usage(), event.usage
        # Cumulative counts; what is left out has not changed since the start.
        self.usage = Usage(
            input=_first(counted.input_tokens, before.input),
            output=counted.output_tokens,
            cache_read=_first(counted.cache_read_input_tokens, before.cache_read),
            cache_write=_first(counted.cache_creation_input_tokens, before.cache_write),
        )


def _first(count: int | None, otherwise: int) -> int:
    return otherwise if count is None else count


def _block(text: str, mark: CacheControlEphemeralParam | None) -> TextBlockParam:
    block = TextBlockParam(type="text", text=sendable(text))
    if mark is not None:
        block["cache_control"] = mark
    return block


def _marked(messages: Sequence[Message], mark: CacheControlEphemeralParam) -> list[MessageParam]:
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    marked = set(users[-MARKED_USER_MESSAGES:])
    turns: list[MessageParam] = []
    for i, message in enumerate(messages):
        content = [_block(message.text, mark if i in marked else None)]
        if message.role == "user":
            turns.append({"role": "user", "content": content})
        else:
            turns.append({"role": "assistant", "content": content})
    return turns
