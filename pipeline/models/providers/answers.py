"""Reads what a model service answers, on both wires: whole replies and the pieces of a stream.

Services that call themselves compatible leave fields out, send null, other types or more than the
reference says: nothing is believed before it was looked at, and nothing raises.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from pipeline.data.types import Usage
from pipeline.replies import split_thoughts

_DEEPEST: Final = 8
"""Parts in parts; Mistral has two."""
_REPEATED: Final = 20
"""Characters that no model says twice and nothing more."""
_LARGEST: Final = 1 << 40
"""Tokens; a larger number is a mistake."""


@dataclass
class Answer:
    """What a service has delivered so far."""

    model: str = ""
    text: list[str] = field(default_factory=list[str])
    thinking: list[str] = field(default_factory=list[str])
    usage: Usage | None = None
    """None until the service says what it counted."""
    stop_reason: str | None = None
    refused: bool = False
    failure: object = None
    """An error that came in place of a piece."""

    def split(self) -> tuple[str, str]:
        """The thinking and the text."""
        thought, text = split_thoughts("".join(self.text))
        return "".join(self.thinking) + thought, text


def read_chat(answer: Answer, data: object) -> None:
    """Add a chunk or a whole reply of chat completions.

    https://platform.openai.com/docs/api-reference/chat-streaming
    """
    chunk = _mapping(data)
    answer.model = _text(chunk.get("model")) or answer.model
    # Groq states it in a field of its own.
    counted = chunk.get("usage") or _mapping(chunk.get("x_groq")).get("usage")
    answer.usage = _chat_usage(_mapping(counted)) or answer.usage
    choices = _sequence(chunk.get("choices"))
    is_error = chunk.get("object") == "error" or (not choices and "choices" not in chunk)
    if chunk.get("error") or (is_error and {"message", "detail", "code"} & chunk.keys()):
        answer.failure = chunk.get("error") or chunk
    for choice in map(_mapping, choices[:1]):
        _read_choice(answer, choice)


def _read_choice(answer: Answer, choice: Mapping[str, object]) -> None:
    said = _mapping(choice.get("delta") or choice.get("message"))
    reason, before = _text(choice.get("finish_reason")), "".join(answer.text)
    thought = _text(said.get("reasoning_content")) or _text(said.get("reasoning"))
    _add_parts(answer, said.get("content"))
    # The last chunk of some services repeats the whole message.
    if reason and len(before) >= _REPEATED and "".join(answer.text) == 2 * before:
        answer.text = [before]
    if not (reason and thought and thought == "".join(answer.thinking)):
        answer.thinking.append(thought)
    answer.refused = answer.refused or bool(said.get("refusal"))
    answer.stop_reason = reason or answer.stop_reason
    answer.failure = choice.get("error") or answer.failure


def read_message(answer: Answer, data: object) -> None:
    """Add an event or a whole message of Anthropic's.

    https://platform.claude.com/docs/en/build-with-claude/streaming
    """
    event = _mapping(data)
    match event.get("type"):
        case "message_start":
            message = _mapping(event.get("message"))
            answer.model = _text(message.get("model"))
            _add_parts(answer, message.get("content"))
            answer.usage = _message_usage(_mapping(message.get("usage")), Usage()) or answer.usage
        case "content_block_start":
            _add_part(answer, event.get("content_block"))
        case "content_block_delta":
            _add_part(answer, event.get("delta"))
        case "message_delta":
            reason = _text(_mapping(event.get("delta")).get("stop_reason"))
            answer.stop_reason = reason or answer.stop_reason
            # Cumulative counts; what is left out has not changed since the start.
            counted = _message_usage(_mapping(event.get("usage")), answer.usage or Usage())
            answer.usage = counted or answer.usage
        case "message":
            answer.model = _text(event.get("model"))
            answer.stop_reason = _text(event.get("stop_reason")) or None
            _add_parts(answer, event.get("content"))
            answer.usage = _message_usage(_mapping(event.get("usage")), Usage())
        case "error":
            answer.failure = event
        case _ if event.get("error"):
            answer.failure = event["error"]
        case _:
            pass  # signatures, block ends, and whatever is invented next


def _add_parts(answer: Answer, content: object) -> None:
    """Add a text, or a list of parts, as Mistral sends them where its models think."""
    if isinstance(content, str):
        answer.text.append(content)
    for part in _sequence(content):
        _add_part(answer, part)


def _add_part(answer: Answer, part: object) -> None:
    fields = _mapping(part)
    kind = fields.get("type")
    if kind in ("thinking", "thinking_delta", "reasoning"):
        answer.thinking.append(_all_text(fields.get("thinking") or fields.get("text")))
    elif kind in ("text", "text_delta", "output_text"):
        answer.text.append(_all_text(fields.get("text")))
    elif isinstance(part, str):
        answer.text.append(part)


def _all_text(content: object, depth: int = 0) -> str:
    if isinstance(content, str):
        return content
    if depth > _DEEPEST:
        return ""
    if isinstance(content, Mapping):
        return _all_text(cast(Mapping[str, object], content).get("text"), depth + 1)
    return "".join(_all_text(part, depth + 1) for part in _sequence(content))


def _chat_usage(counted: Mapping[str, object]) -> Usage | None:
    prompt = _count(counted.get("prompt_tokens"))
    if not prompt:  # no prompt is empty: it was not counted
        return None
    details = _mapping(counted.get("prompt_tokens_details"))
    # DeepSeek's own name for it.
    cached = _count(details.get("cached_tokens")) or _count(counted.get("prompt_cache_hit_tokens"))
    cached = min(cached or 0, prompt)
    # xAI and Gemini leave thoughts out of the completion, not out of the total.
    thought = (_count(counted.get("total_tokens")) or 0) - prompt
    output = max(_count(counted.get("completion_tokens")) or 0, thought)
    return Usage(input=prompt - cached, output=output, cache_read=cached)


def _message_usage(counted: Mapping[str, object], before: Usage) -> Usage | None:
    names = ("input", "output", "cache_read", "cache_write")
    fields = ("input_tokens", "output_tokens", "cache_read_input_tokens")
    found = [_count(counted.get(name)) for name in (*fields, "cache_creation_input_tokens")]
    values = {
        name: getattr(before, name) if count is None else count
        for name, count in zip(names, found, strict=True)
    }
    usage = Usage(**values)
    return usage if usage.input + usage.cache_read + usage.cache_write else None


def _mapping(value: object) -> Mapping[str, object]:
    return cast(Mapping[str, object], value) if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[object]:
    return cast(Sequence[object], value) if isinstance(value, list | tuple) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    """A number of tokens; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < _LARGEST else None
