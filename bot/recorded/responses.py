"""An answer made ready for the wire: its text, its name, why it stops and what it cost."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

from bot.recorded.cache import CHARACTERS_PER_TOKEN, tokens
from bot.recorded.recording import Answer
from bot.recorded.requests import Asked
from pipeline.types import Usage

RECORDED = "recorded"
"""Begins the name of every model that answers from here."""

PIECE_CHARACTERS = 400
"""Text in one event of a stream."""


class Told(NamedTuple):
    id: str
    model: str
    text: str
    stop: Literal["end", "length", "refusal", "context"]
    usage: Usage
    stream_usage: bool
    thinking: str = ""
    logprobs: tuple[tuple[str, float], ...] = ()
    """Of the likeliest first tokens, the likeliest first; empty: not asked for, or not given."""
    prompt_logprobs: tuple[float, ...] | None = None
    """Of each token of the prompt; None: not asked for, or not given."""

    def pieces(self) -> list[str]:
        """The text cut up for a stream: at least two pieces, so that a reader must join them."""
        size = max(1, min(PIECE_CHARACTERS, -(-len(self.text) // 2)))
        return [self.text[i : i + size] for i in range(0, len(self.text), size)]


class Streamed(NamedTuple):
    """The events of one answer, in order."""

    begin: list[bytes]
    pieces: list[bytes]
    end: list[bytes]


class Wire(Protocol):
    """How one protocol says things."""

    def whole(self, told: Told) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        ...

    def streamed(self, told: Told) -> Streamed: ...

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The body of an error; inside a stream, the data of its event."""
        ...

    def event(self, data: dict[str, Any]) -> bytes:
        """One server-sent event."""
        ...


def named(model: str) -> str:
    """The name to answer under, so that no recording passes for a live model."""
    return model if model.startswith(RECORDED) else f"{RECORDED}-{model}"


def tell(answer: Answer, asked: Asked, prompt: Usage, number: int) -> Told:
    """`answer` cut at the `max_tokens` that were asked for, with its output counted."""
    text, stop = answer.reply, answer.stop
    if asked.max_tokens is not None and tokens(text) > asked.max_tokens:
        text, stop = text[: asked.max_tokens * CHARACTERS_PER_TOKEN], "length"
    thinking = answer.thinking if asked.thinks else ""
    usage = prompt.model_copy(update={"output": tokens(text) + tokens(thinking)})
    name = named(asked.model)
    identity = f"recorded_{number}"
    prompted = asked.prompt_logprobs and answer.prompt_logprob is not None
    total = usage.input + usage.cache_read + usage.cache_write
    likely = sorted(answer.logprobs.items(), key=lambda item: -item[1])[: asked.alternatives]
    return Told(
        identity,
        name,
        text,
        stop,
        usage,
        asked.stream_usage,
        thinking,
        logprobs=tuple(likely),
        prompt_logprobs=(answer.prompt_logprob or 0.0,) * total if prompted else None,
    )


def anthropic_models(names: list[str]) -> dict[str, Any]:
    """The list of models as Anthropic's service has it."""
    data = [
        {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
        }
        for name in names
    ]
    return {"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def openai_models(names: list[str]) -> dict[str, Any]:
    """The same as other servers have it."""
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "recorded"} for name in names]
    return {"object": "list", "data": data}
