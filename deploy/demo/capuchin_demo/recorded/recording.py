"""A request of either protocol, and the prepared answers by stage, sample and turn."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from capuchin_demo.recorded.prompt_cache import PromptPart
from pipeline.data.types import Picture
from pipeline.models.base import Message
from pipeline.models.providers.provider_http import CALL_HEADER


class InvalidModelRequest(Exception):
    """The real service would reject the request; the text says why."""


class _RequestModel(BaseModel):
    """Ignores unknown fields, because both services add some every month."""

    model_config = ConfigDict(frozen=True)


def _as_blocks(value: object) -> object:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


class TextBlock(_RequestModel):
    type: Literal["text"]
    text: str = Field(min_length=1)
    cache_control: Mapping[str, Any] | None = None


TextBlocks = Annotated[tuple[TextBlock, ...], BeforeValidator(_as_blocks)]


class _PictureSource(_RequestModel):
    type: Literal["base64"]
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: str = Field(min_length=1)


class _PictureBlock(_RequestModel):
    type: Literal["image"]
    source: _PictureSource

    @property
    def picture(self) -> Picture:
        return Picture(media_type=self.source.media_type, base64=self.source.data)


_Block = Annotated[TextBlock | _PictureBlock, Field(discriminator="type")]


class _AnthropicTurn(_RequestModel):
    role: Literal["user", "assistant"]
    content: Annotated[tuple[_Block, ...], BeforeValidator(_as_blocks)] = Field(min_length=1)

    @property
    def texts(self) -> list[TextBlock]:
        return [block for block in self.content if isinstance(block, TextBlock)]

    @property
    def message(self) -> Message:
        pictures = (block.picture for block in self.content if isinstance(block, _PictureBlock))
        text = "".join(block.text for block in self.texts)
        return Message(role=self.role, text=text, pictures=tuple(pictures))


class _ThinkingOptions(_RequestModel):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = Field(default=None, ge=1024)


class _AnthropicBody(_RequestModel):
    model: str = Field(min_length=1)
    messages: tuple[_AnthropicTurn, ...] = Field(min_length=1)
    system: TextBlocks = ()
    max_tokens: int = Field(ge=0)
    thinking: _ThinkingOptions | None = None
    stream: bool = False
    temperature: float | None = None


class _PictureUrl(_RequestModel):
    url: str = Field(pattern=r"^data:image/(png|jpeg|gif|webp);base64,.")


class _ChatPicture(_RequestModel):
    type: Literal["image_url"]
    image_url: _PictureUrl

    @property
    def picture(self) -> Picture:
        kind, _, data = self.image_url.url.removeprefix("data:").partition(";base64,")
        return Picture.model_validate({"media_type": kind, "base64": data})


class _ChatTurn(_RequestModel):
    role: Literal["system", "user", "assistant"]
    parts: Annotated[tuple[TextBlock | _ChatPicture, ...] | str, Field(validation_alias="content")]

    @property
    def content(self) -> str:
        if isinstance(self.parts, str):
            return self.parts
        return "".join(part.text for part in self.parts if isinstance(part, TextBlock))

    @property
    def message(self) -> Message:
        pictures = (part.picture for part in self.parts if isinstance(part, _ChatPicture))
        role = "user" if self.role == "user" else "assistant"
        return Message(role=role, text=self.content, pictures=tuple(pictures))


class _StreamOptions(_RequestModel):
    include_usage: bool = False


class _ChatBody(_RequestModel):
    model: str = Field(min_length=1)
    messages: tuple[_ChatTurn, ...] = Field(min_length=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stream: bool = False
    stream_options: _StreamOptions | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    response_format: Mapping[str, Any] | None = None
    logprobs: bool = False
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    prompt_logprobs: int | None = Field(default=None, ge=0)
    thinking_token_budget: int | None = Field(default=None, ge=-1)
    chat_template_kwargs: Mapping[str, Any] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False

    @model_validator(mode="after")
    def _check_combinations(self) -> "_ChatBody":
        """What vLLM rejects: `ChatCompletionRequest` of its protocol."""
        if self.top_logprobs and not self.logprobs:
            raise ValueError("when using `top_logprobs`, `logprobs` must be set to true")
        if self.prompt_logprobs is not None and self.stream:
            raise ValueError("`prompt_logprobs` are not available when `stream=True`")
        if self.continue_final_message and self.add_generation_prompt:
            raise ValueError("cannot set both `continue_final_message` and `add_generation_prompt`")
        return self


class ReceivedRequest(BaseModel):
    """One request, for matching answers and for tests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Literal["anthropic", "openai"]
    call: str
    """The call header; empty if the client sends none."""
    model: str
    system: str
    messages: tuple[Message, ...]
    max_tokens: int | None
    temperature: float | None
    thinks: bool = True
    """Whether thinking is returned; over chat completions a reasoning model always returns it."""
    thinking_tokens: int = 0
    """The thinking budget in tokens; over chat completions in vLLM's way."""
    stream: bool
    stream_usage: bool
    parts: tuple[PromptPart, ...]
    marks: tuple[Mapping[str, Any], ...] = ()
    """The cache control of each marked part, in order; Anthropic's protocol only."""
    response_format: Mapping[str, Any] | None = None
    alternatives: int = 0
    """The number of requested alternatives for each token; chat completions only."""
    headers: Mapping[str, str]
    """Lower-case names, without headers that contain a secret."""
    prompt_logprobs: bool = False
    """Whether the prompt's log-probabilities are requested; vLLM only."""

    @property
    def turn(self) -> int:
        """The number of assistant messages in the prompt."""
        return sum(message.role == "assistant" for message in self.messages)

    @property
    def prefill(self) -> str:
        """The text of an assistant message at the end, which the reply continues."""
        last = self.messages[-1]
        return last.text if last.role == "assistant" else ""

    @property
    def last_user_message(self) -> str:
        """The text of the last user message."""
        texts = [message.text for message in self.messages if message.role == "user"]
        return texts[-1] if texts else ""


def parse_anthropic_request(body: bytes, headers: Mapping[str, str]) -> ReceivedRequest:
    """Parse `POST /v1/messages`.

    Raises:
        InvalidModelRequest: Anthropic's service would respond 400.
    """
    sent = parse_body(_AnthropicBody, body)
    blocks = [("system", block) for block in sent.system]
    blocks += [(turn.role, block) for turn in sent.messages for block in turn.texts]
    budget = (sent.thinking.budget_tokens if sent.thinking else None) or 0
    if sent.max_tokens <= budget:
        raise InvalidModelRequest("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if sent.temperature is not None:
        raise InvalidModelRequest("temperature: Extra inputs are not permitted")
    # https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    if sum(block.cache_control is not None for _, block in blocks) > 4:
        raise InvalidModelRequest("A maximum of 4 blocks with cache_control may be provided.")
    return ReceivedRequest(
        protocol="anthropic",
        call=headers.get(CALL_HEADER.lower(), ""),
        model=sent.model,
        system="".join(block.text for block in sent.system),
        messages=tuple(turn.message for turn in sent.messages),
        max_tokens=sent.max_tokens,
        temperature=None,
        thinks=sent.thinking is not None and sent.thinking.type != "disabled",
        thinking_tokens=budget,
        stream=sent.stream,
        stream_usage=True,
        parts=tuple(
            PromptPart(text=f"{role}\n{block.text}", marked=block.cache_control is not None)
            for role, block in blocks
        ),
        marks=tuple(block.cache_control for _, block in blocks if block.cache_control is not None),
        headers=public_headers(headers),
    )


def parse_chat_request(body: bytes, headers: Mapping[str, str]) -> ReceivedRequest:
    """Parse `POST /v1/chat/completions`. vLLM caches every prefix, so every part is marked.

    Raises:
        InvalidModelRequest: a real server would respond 400.
    """
    sent = parse_body(_ChatBody, body)
    turns = [turn for turn in sent.messages if turn.role != "system"]
    return ReceivedRequest(
        protocol="openai",
        call=headers.get(CALL_HEADER.lower(), ""),
        model=sent.model,
        system="".join(turn.content for turn in sent.messages if turn.role == "system"),
        messages=tuple(turn.message for turn in turns),
        max_tokens=sent.max_completion_tokens or sent.max_tokens,
        temperature=sent.temperature,
        stream=sent.stream,
        stream_usage=sent.stream_options is not None and sent.stream_options.include_usage,
        parts=tuple(
            PromptPart(text=f"{turn.role}\n{turn.content}", marked=True) for turn in sent.messages
        ),
        response_format=sent.response_format,
        alternatives=(sent.top_logprobs or 0) if sent.logprobs else 0,
        thinks=bool((sent.chat_template_kwargs or {}).get("enable_thinking", True)),
        thinking_tokens=sent.thinking_token_budget or 0,
        prompt_logprobs=sent.prompt_logprobs is not None,
        headers=public_headers(headers),
    )


def public_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers without secrets."""
    secret = {"authorization", "x-api-key", "cookie"}
    return {name: value for name, value in headers.items() if name not in secret}


B = TypeVar("B", bound=BaseModel)


def parse_body(kind: type[B], body: bytes) -> B:
    """Parse `body` as one of these models.

    Raises:
        InvalidModelRequest: names the invalid field.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidModelRequest(f"{where}: {first['msg']}" if where else first["msg"]) from error


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
"""One string or a list of strings."""


def _as_cut(value: object) -> object:
    return {True: "end", False: None}[value] if isinstance(value, bool) else value


Cut = Annotated[Literal["end", "drop"] | None, BeforeValidator(_as_cut)]


class RecordedAnswer(BaseModel):
    """One entry, which answers a request that meets all its conditions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    call: str = Field(min_length=1)
    """`stage/sample`, a stage for any of its samples, or a glob such as `testing/*`."""
    turn: int | None = Field(default=None, ge=0)
    """The number of earlier assistant messages."""
    when: Texts = ()
    """Texts that must all occur in the last user message."""
    when_system: Texts = ()
    """Texts that must all occur in the system prompt."""
    when_answer: Texts = ()
    """Texts that must all occur in an assistant message at the end of the prompt."""

    reply: str = ""
    thinking: str = ""
    """The thinking of a reasoning model; over Anthropic's protocol only on request."""
    logprobs: Mapping[str, float] = {}
    """Log-probabilities of the likeliest first tokens; empty if the service has none."""
    prompt_logprob: float | None = None
    """The log-probability of every token of the prompt; None if the service has none."""
    stop: Literal["end", "length", "refusal", "context"] = "end"
    """Why the model stopped; `context` means that its context window was full."""
    delay: float = Field(default=0, ge=0, le=600)
    """Seconds before the response starts."""

    status: int | None = Field(default=None, ge=400, le=599)
    """Respond with this HTTP error instead of `reply`."""
    error: str = "The recording says that this request fails."
    """The text of the error."""
    late: bool = False
    """Send the error inside the stream, after half of `reply`."""
    cut: Cut = None
    """Stop after half of `reply`: `end` ends the response properly, `drop` breaks the connection.

    `true` means `end`.
    """
    times: int | None = Field(default=None, ge=1)
    """Fail only this often, then answer with `reply`. None: always."""

    @model_validator(mode="after")
    def _check_fields(self) -> "RecordedAnswer":
        fails = self.status is not None or self.cut is not None
        if self.status is not None and self.cut is not None:
            raise ValueError("has both `status` and `cut`; give one")
        if self.times is not None and not fails:
            raise ValueError("has `times`, but neither `status` nor `cut` to count")
        if self.late and self.status is None:
            raise ValueError("is `late`, but has no `status` to send")
        silent = fails or self.stop in ("refusal", "context")
        if not self.reply.strip() and (not silent or self.times is not None):
            raise ValueError("has no `reply`")
        return self

    def matches(self, received: ReceivedRequest) -> bool:
        """Whether the request meets all conditions."""
        return (
            (fnmatchcase(received.call, self.call) or received.call.split("/")[0] == self.call)
            and self.turn in (None, received.turn)
            and all(words in received.last_user_message for words in self.when)
            and all(words in received.system for words in self.when_system)
            and all(words in received.prefill for words in self.when_answer)
        )


class Recording(BaseModel):
    """The whole file. The first matching answer is used."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    note: str = Field(min_length=1)
    """The origin of the answers, as a sentence for people."""
    answers: tuple[RecordedAnswer, ...] = Field(min_length=1)

    def choose(self, received: ReceivedRequest) -> int | None:
        """The index of the first matching answer; None if there is none."""
        fitting = (i for i, answer in enumerate(self.answers) if answer.matches(received))
        return next(fitting, None)

    @classmethod
    def load(cls, path: Path) -> "Recording":
        """Read a YAML or JSON file. Raises ValidationError: it holds no recording."""
        return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
