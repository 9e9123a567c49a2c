"""A response before its encoding; tokens as a prompt cache counts them."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from capuchin_demo.recorded.prompt_cache import CHARACTERS_PER_TOKEN, PromptPart, count_tokens
from capuchin_demo.recorded.recording import ReceivedRequest, RecordedAnswer
from pipeline.data.types import Usage
from sandbox.frozen import replace

BLOCK_TOKENS = 16
"""vLLM's default."""


class BlockCache:
    """vLLM's automatic prefix cache: whole blocks of a prompt, identified with all text before.

    https://docs.vllm.ai/en/latest/design/prefix_caching.html
    """

    def __init__(self) -> None:
        self.queries = 0
        """The tokens of all prompts so far."""
        self.hits = 0
        """How many of them were in cached blocks."""
        self._known: set[bytes] = set()

    def add(self, model: str, parts: Sequence[PromptPart]) -> None:
        """Count a prompt and cache its blocks."""
        text = "".join(part.text for part in parts).encode()
        self.queries += -(-len(text) // CHARACTERS_PER_TOKEN)
        digest = hashlib.sha256(model.encode()).digest()
        step = BLOCK_TOKENS * CHARACTERS_PER_TOKEN
        for start in range(0, len(text) - step + 1, step):
            digest = hashlib.sha256(digest + text[start : start + step]).digest()
            self.hits += BLOCK_TOKENS * (digest in self._known)
            self._known.add(digest)


NAME_PREFIX = "recorded"
"""The prefix of the name of every model that answers from a recording."""


def answering_name(model: str) -> str:
    """The response's model name, which marks it as recorded."""
    return model if model.startswith(NAME_PREFIX) else f"{NAME_PREFIX}-{model}"


class ModelResponse(NamedTuple):
    id: str
    model: str
    text: str
    stop: Literal["end", "length", "refusal", "context"]
    usage: Usage
    stream_usage: bool
    thinking: str = ""
    logprobs: tuple[tuple[str, float], ...] = ()
    """The likeliest first tokens, likeliest first; empty if not requested or not available."""
    prompt_logprobs: tuple[float, ...] | None = None
    """For each token of the prompt; None if not requested or not available."""

    def split_text(self) -> list[str]:
        """The text in at least two pieces for a stream, so that a client must join them."""
        size = max(1, min(400, -(-len(self.text) // 2)))
        return [self.text[i : i + size] for i in range(0, len(self.text), size)]


class StreamEvents(NamedTuple):
    """The events of one response, in order."""

    begin: list[bytes]
    pieces: list[bytes]
    end: list[bytes]


class ResponseEncoder(Protocol):
    """The encoder of one protocol."""

    def to_json(self, response: ModelResponse) -> dict[str, Any]:
        """The body of a response that is not streamed."""
        ...

    def to_events(self, response: ModelResponse) -> StreamEvents: ...

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """The body of an error; inside a stream, the data of its event."""
        ...

    def encode_event(self, data: dict[str, Any]) -> bytes:
        """One server-sent event."""
        ...


class ServiceError(Exception):
    """An error response; `str(error)` is its message."""

    def __init__(self, encoder: ResponseEncoder, status: int, message: str) -> None:
        super().__init__(message)
        self.encoder = encoder
        self.status = status


def build_response(
    answer: RecordedAnswer, received: ReceivedRequest, prompt: Usage, number: int
) -> ModelResponse:
    """The response for `answer`, cut at the requested `max_tokens`, with its output counted."""
    text, stop = answer.reply, answer.stop
    if received.max_tokens is not None and count_tokens(text) > received.max_tokens:
        text, stop = text[: received.max_tokens * CHARACTERS_PER_TOKEN], "length"
    thinking = answer.thinking if received.thinks else ""
    usage = replace(prompt, output=count_tokens(text) + count_tokens(thinking))
    name = answering_name(received.model)
    identity = f"recorded_{number}"
    prompted = received.prompt_logprobs and answer.prompt_logprob is not None
    total = usage.input + usage.cache_read + usage.cache_write
    likely = sorted(answer.logprobs.items(), key=lambda item: -item[1])[: received.alternatives]
    return ModelResponse(
        identity,
        name,
        text,
        stop,
        usage,
        received.stream_usage,
        thinking,
        logprobs=tuple(likely),
        prompt_logprobs=(answer.prompt_logprob or 0.0,) * total if prompted else None,
    )


def anthropic_model_list(names: list[str]) -> dict[str, Any]:
    """The list of models in Anthropic's format."""
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


def openai_model_list(names: list[str], windows: Mapping[str, int | str]) -> dict[str, Any]:
    """The list of models in OpenAI's format, with vLLM's `max_model_len` where `windows` has it, or
    the `parent` of an adapter."""
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "recorded"}
        | _describe_window(windows.get(name))
        for name in dict.fromkeys(names)
    ]
    return {"object": "list", "data": data}


def _describe_window(known: int | str | None) -> dict[str, Any]:
    match known:
        case None:
            return {}
        case str(parent):
            return {"parent": parent, "max_model_len": None}
        case _:
            return {"parent": None, "max_model_len": known}
