"""The one question we ask of any model: given this conversation, what next?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import Field

from pipeline.types import Frozen, Usage


class ModelError(Exception):
    """A model call failed. Branches answer who can do something about it.

    ModelError
    ├── ModelUnavailable    passes by itself: overloaded, rate limited, unreachable
    ├── ModelMisconfigured  the operator's: bad key, wrong address
    │   └── ModelRetired    a model that the service does not know, or no longer
    ├── ModelRefused        the model declined to answer
    └── ContextTooLong      the conversation does not fit the model's window
    """

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage
        """Tokens that the service counted before it failed: they are billed all the same."""


def usage_of(error: BaseException) -> Usage | None:
    """What a call that failed or was cancelled had used, as far as the service had told."""
    used = vars(error).get("usage")
    return used if isinstance(used, Usage) else None


class ModelUnavailable(ModelError):
    """Overloaded, rate limited, cut off or unreachable, after the SDK's own retries."""


class ModelMisconfigured(ModelError):
    """The service does not accept our key, model name or request; retrying cannot help."""


class ModelRetired(ModelMisconfigured):
    """The service does not know the model: it was retired, or its name or address is wrong."""


class ModelRefused(ModelError):
    """The model declined to answer this conversation."""


class ContextTooLong(ModelError):
    """The conversation does not fit the model's window."""


class Message(Frozen):
    role: Literal["user", "assistant"]
    text: str


class ReplyFormat(Frozen):
    """What a reply shall look like, where the service can see to that; else it is not said."""

    json_schema: Mapping[str, Any] | None = None
    """The text is a JSON document of this schema."""
    alternatives: int = 0
    """How many candidates for the first token are told with their probabilities; at most 20."""


class Reply(Frozen):
    text: str
    usage: Usage
    model: str
    """The name the service answered under; a recording says so here."""
    stopped: Literal["end", "length"] = "end"
    thinking: str = ""
    """What a reasoning model thought aloud. Never part of `text`, and never sent back."""
    first: tuple[tuple[str, float], ...] = ()
    """The first token's candidates and their probabilities, if `alternatives` asked for them."""
    batched: bool = False
    """Whether it was asked in a batch, and is paid so."""


class Price(Frozen):
    """US dollars per million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    """Of what the cache keeps as long as the profile says."""
    cache_write_hour: float = 0
    """Of what it keeps for an hour; only a source for `cache_write`."""
    batch: float = Field(default=1, ge=0)
    """The share of these prices that is paid for what is asked in a batch; 1: there is no such."""

    @property
    def batched(self) -> Price:
        """The same for what is asked in a batch."""
        share = self.batch
        return Price(
            input=self.input * share,
            output=self.output * share,
            cache_read=self.cache_read * share,
            cache_write=self.cache_write * share,
            cache_write_hour=self.cache_write_hour * share,
        )

    def of(self, usage: Usage) -> float:
        """US dollars for `usage`."""
        return (
            self.input * usage.input
            + self.output * usage.output
            + self.cache_read * usage.cache_read
            + self.cache_write * usage.cache_write
        ) / 1_000_000


class ModelProfile(Frozen):
    """What a model is and can do, as data beside the client."""

    provider: Literal["anthropic", "openai"]
    name: str
    window: int
    """Tokens of prompt and reply together."""
    max_output: int
    sampling: bool
    """Whether the service takes a temperature."""
    price: Price
    price_note: str = ""
    """Where the price is in no list: what it is counted at, in a sentence for people."""
    thinking: bool = False
    """Whether the service can be told how many tokens the model may think before it replies."""
    thinking_tokens: int = 0
    """So many it is told; 0: nothing."""
    sent_to: tuple[str, ...] = Field(default=(), exclude=True)
    """The hosts that what it is asked comes to. Not part of a saved profile."""
    cache_seconds: Literal[300, 3600] = 300
    """How long the prompt cache keeps what was not asked for, where that can be chosen."""


@dataclass(frozen=True)
class ModelRequest:
    """One question to a model."""

    system: str
    """The system prompt; "" sends no system prompt."""
    messages: tuple[Message, ...]
    """The conversation so far; the last message is the user's."""
    call: str
    """Names the request in logs, accounts and recordings, in ASCII: `stage/sample`, for example
    `testing/3` or `ranking/0`."""
    temperature: float | None = None
    """Dropped where the model's profile says that the service accepts no temperature."""
    max_tokens: int | None = None
    """The longest reply, in tokens; None: the profile's `max_output`."""
    form: ReplyFormat | None = None
    """Services keep to it as far as they can: a caller must be able to read any other reply."""

    @property
    def is_opening(self) -> bool:
        """Whether it begins a conversation."""
        return all(message.role == "user" for message in self.messages)


class Model(Protocol):
    @property
    def profile(self) -> ModelProfile: ...

    async def complete(self, request: ModelRequest) -> Reply:
        """Ask for the next message of the conversation.

        Raises:
            ModelUnavailable, ModelMisconfigured, ModelRefused, ContextTooLong: see `ModelError`.
        """
        ...
