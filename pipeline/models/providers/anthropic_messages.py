"""What is said to Anthropic's service and heard from it, in the SDK's types. Knows no client."""

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

from pipeline.models.base import Message, ModelProfile
from pipeline.models.cache_lifetime import HOUR
from pipeline.models.providers.http import sendable
from pipeline.models.wrappers.base import Question
from pipeline.types import Usage

MARKED_USER_MESSAGES = 2
"""The last but one is the mark that the previous turn wrote, so that this turn reads it.

https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

_SHORT: CacheControlEphemeralParam = {"type": "ephemeral"}  # kept five minutes
_LONG: CacheControlEphemeralParam = {"type": "ephemeral", "ttl": "1h"}


@dataclass
class Heard:
    """What a stream has said so far."""

    model: str = ""
    text: list[str] = field(default_factory=list[str])
    thinking: list[str] = field(default_factory=list[str])
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
            case "content_block_start" if event.content_block.type == "thinking":
                self.thinking.append(event.content_block.thinking)
            case "content_block_delta" if event.delta.type == "thinking_delta":
                self.thinking.append(event.delta.thinking)
            case "message_delta":
                self._finish(event)
            case _:
                pass  # signatures, block ends, and whatever is invented next

    def hear_whole(self, answer: types.Message) -> None:
        """An answer that was not streamed, as batches bring them."""
        self.model, self.stop_reason = answer.model, answer.stop_reason
        for part in answer.content:
            if part.type == "text":
                self.text.append(part.text)
            elif part.type == "thinking":
                self.thinking.append(part.thinking)
        self.usage = _usage(answer.usage)

    def _start(self, event: RawMessageStartEvent) -> None:
        self.model = event.message.model
        self.usage = _usage(event.message.usage)

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


def params_of(profile: ModelProfile, question: Question) -> MessageCreateParamsNonStreaming:
    """`question` with cache marks that keep what is read as long as the profile says."""
    mark = _LONG if profile.cache_seconds == HOUR else _SHORT
    params = MessageCreateParamsNonStreaming(
        model=profile.name,
        messages=_marked(question.messages, mark),
        max_tokens=question.max_tokens or profile.max_output,
    )
    if question.system:
        params["system"] = [_block(question.system, mark)]
    if thinking := _thinking(profile, question):
        params["thinking"] = thinking
    return params


def _usage(counted: types.Usage) -> Usage:
    return Usage(
        input=counted.input_tokens,
        output=counted.output_tokens,
        cache_read=counted.cache_read_input_tokens or 0,
        cache_write=counted.cache_creation_input_tokens or 0,
    )


def _thinking(profile: ModelProfile, question: Question) -> ThinkingConfigEnabledParam | None:
    """How much may be thought before the reply; None where there is no room for a reply after it.

    https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    """
    longest = question.max_tokens or profile.max_output
    if not profile.thinking_tokens or longest <= profile.thinking_tokens:
        return None
    return {"type": "enabled", "budget_tokens": profile.thinking_tokens}


def _first(count: int | None, otherwise: int) -> int:
    return otherwise if count is None else count


def _block(text: str, mark: CacheControlEphemeralParam | None) -> TextBlockParam:
    block = TextBlockParam(type="text", text=sendable(text))
    if mark is not None:
        block["cache_control"] = mark
    return block


def _marked(messages: Sequence[Message], mark: CacheControlEphemeralParam) -> list[MessageParam]:
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    last = set(users[-MARKED_USER_MESSAGES:])
    turns: list[MessageParam] = []
    for i, message in enumerate(messages):
        content = [_block(message.text, mark if i in last else None)]
        if message.role == "user":
            turns.append({"role": "user", "content": content})
        else:
            turns.append({"role": "assistant", "content": content})
    return turns
