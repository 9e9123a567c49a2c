"""Requests to and replies from Anthropic's service, in the SDK's types. Knows no client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anthropic import types
from anthropic.types import (
    CacheControlEphemeralParam,
    MessageParam,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStreamEvent,
    TextBlockParam,
    ThinkingConfigEnabledParam,
)
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

from pipeline.models.base import Message, ModelProfile, ModelRequest
from pipeline.models.cache_lifetime import HOUR
from pipeline.models.providers.http import replace_surrogates
from pipeline.types import Usage

CACHED_USER_MESSAGES = 2
"""The last but one mark is the one the previous turn wrote, so this turn reads it.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

_FIVE_MINUTE_MARK: CacheControlEphemeralParam = {"type": "ephemeral"}  # kept five minutes
_HOUR_MARK: CacheControlEphemeralParam = {"type": "ephemeral", "ttl": "1h"}


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
    mark = _HOUR_MARK if profile.cache_seconds == HOUR else _FIVE_MINUTE_MARK
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


def _with_cache_marks(
    messages: Sequence[Message], mark: CacheControlEphemeralParam
) -> list[MessageParam]:
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    # The opening has a mark of its own: where old results are left out, only it is repeated. With
    # the system text's mark that makes four, the most that are allowed.
    last = {*users[:1], *users[-CACHED_USER_MESSAGES:]}
    turns: list[MessageParam] = []
    for i, message in enumerate(messages):
        content = [_text_block(message.text, mark if i in last else None)]
        if message.role == "user":
            turns.append({"role": "user", "content": content})
        else:
            turns.append({"role": "assistant", "content": content})
    return turns
