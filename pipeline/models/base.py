"""The one question we ask of any model: given this conversation, what next?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict


class ModelError(Exception):
    """A model call failed. Branches answer who can do something about it.

    ModelError
    ├── ModelUnavailable    passes by itself: overloaded, rate limited, unreachable
    ├── ModelMisconfigured  the operator's: bad key, unknown model, wrong address
    ├── ModelRefused        the model declined to answer
    └── ContextTooLong      the conversation does not fit the model's window
    """

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage
        """Tokens that the service counted before it failed: they are billed all the same."""


class ModelUnavailable(ModelError):
    """Overloaded, rate limited, cut off or unreachable, after the SDK's own retries."""


class ModelMisconfigured(ModelError):
    """The service does not accept our key, model name or request; retrying cannot help."""


class ModelRefused(ModelError):
    """The model declined to answer this conversation."""


class ContextTooLong(ModelError):
    """The conversation does not fit the model's window."""


class Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["user", "assistant"]
    text: str


class Usage(BaseModel):
    """Tokens of one or more calls. `input` excludes what the cache served or stored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )


class Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    usage: Usage
    model: str
    """The name the service answered under; a recording says so here."""
    stopped: Literal["end", "length"] = "end"
    thinking: str = ""
    """What a reasoning model thought aloud. Never part of `text`, and never sent back."""


class Price(BaseModel):
    """US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    """Of what the cache keeps as long as the profile says."""
    cache_write_hour: float = 0
    """Of what it keeps for an hour; only a source for `cache_write`."""

    def of(self, usage: Usage) -> float:
        """US dollars for `usage`."""
        return (
            self.input * usage.input
            + self.output * usage.output
            + self.cache_read * usage.cache_read
            + self.cache_write * usage.cache_write
        ) / 1_000_000


class ModelProfile(BaseModel):
    """What a model is and can do, as data beside the client."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Literal["anthropic", "openai"]
    name: str
    window: int
    """Tokens of prompt and reply together."""
    max_output: int
    sampling: bool
    """Whether the service takes a temperature."""
    price: Price
    cache_seconds: Literal[300, 3600] = 300
    """How long the prompt cache keeps what was not asked for, where that can be chosen."""


class Model(Protocol):
    @property
    def profile(self) -> ModelProfile: ...

    async def complete(
        self,
        system: str,
        messages: Sequence[Message],
        *,
        call: str,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Reply:
        """Ask for the next message; the last of `messages` is the user's.

        `call` names the question for logs, accounts and recordings: `stage/sample`, as in
        `testing/3` or `ranking/0` (ASCII). `temperature` is dropped where the profile says that
        the service takes none. `max_tokens` defaults to the profile's `max_output`.

        Raises:
            ModelUnavailable, ModelMisconfigured, ModelRefused, ContextTooLong: see above.
        """
        ...
