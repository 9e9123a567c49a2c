"""The one question we ask of any model; probabilities."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import Field

from pipeline.data.options import Options
from pipeline.data.types import Issue, Picture, Usage
from sandbox.frozen import Frozen


class ModelError(Exception):
    """A model call failed. The branches say who can do something about it.

    ModelError
    ├── ModelUnavailable     temporary
    │   ├── ModelOverloaded  too many requests, of ours or of all
    │   └── ModelUnreachable no connection, or a broken one
    ├── ModelMisconfigured   for the operator to mend
    │   ├── WrongKey         the key is not accepted, or may not do this
    │   ├── ModelRetired     the service does not know the model (any more)
    │   ├── WrongAddress     what answers is no model service, or not the right one
    │   ├── NoCredit         the account is empty
    │   └── WindowTooSmall   the server reads only a part of what it is sent
    ├── ModelRefused         the model declined to answer
    └── ContextTooLong       the conversation does not fit the model's window
    """

    def __init__(self, message: str, usage: Usage | None = None, *, words: str = "") -> None:
        super().__init__(message)
        self.usage = usage
        """Tokens that the service counted before it failed; they are billed."""
        self.words = words
        """What the service itself said, on one line; for operators, not for the public."""


def usage_of(error: BaseException) -> Usage | None:
    """The tokens that the service reported for a failed or cancelled call."""
    used = vars(error).get("usage")
    return used if isinstance(used, Usage) else None


def with_words(error: BaseException) -> str:
    """The error's sentence and what the service said, for operators."""
    words = error.words if isinstance(error, ModelError) else ""
    return f'{error} It says: "{words}"' if words else str(error)


class ModelUnavailable(ModelError):
    """Overloaded, rate limited, cut off or unreachable, after the SDK's own retries."""


class ModelOverloaded(ModelUnavailable):
    """The service has too much to do, or limits how much we may ask."""


class ModelUnreachable(ModelUnavailable):
    """No connection could be made, or it broke."""


class ModelMisconfigured(ModelError):
    """The service does not accept our key, model name or request; retrying cannot help."""


class WrongKey(ModelMisconfigured):
    """The service does not accept the key, or does not let it use the model."""


class ModelRetired(ModelMisconfigured):
    """The service does not know the model: it was retired, or its name or address is wrong."""


class WrongAddress(ModelMisconfigured):
    """What answers is not a model service, cannot be trusted, or speaks another protocol."""


class NoCredit(ModelMisconfigured):
    """The service wants to be paid first."""


class WindowTooSmall(ModelMisconfigured):
    """The server read fewer tokens than it was sent, and answered all the same."""


class ModelRefused(ModelError):
    """The model declined to answer this conversation."""


class ContextTooLong(ModelError):
    """The conversation does not fit the model's window."""


class Message(Frozen):
    role: Literal["user", "assistant"]
    text: str
    pictures: tuple[Picture, ...] = ()
    """What the user shows to a model that sees; they come before the text."""


class ReplyFormat(Frozen):
    """The form of the reply, for services that can enforce one; others ignore it."""

    json_schema: Mapping[str, Any] | None = None
    """The text is a JSON document of this schema."""


class Reply(Frozen):
    text: str
    usage: Usage
    model: str
    """The model name in the service's reply; a recording says here that it is one."""
    stopped: Literal["end", "length"] = "end"
    thinking: str = ""
    """What a reasoning model thought aloud. Never part of `text`, and never sent back."""
    uncounted: bool = False
    """Whether the service did not say how many tokens it took: `usage` is then a bound of ours."""


class Price(Frozen):
    """US dollars per million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    """For what the cache keeps as long as the profile says."""
    cache_write_hour: float = 0
    """For what the cache keeps for an hour; used only to derive `cache_write`."""

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
    """Set when the price is in no list: one sentence that says what we assume."""
    thinking: bool = False
    """Whether the service accepts a limit on the tokens that the model thinks before it replies."""
    thinking_tokens: int = 0
    """How many tokens it may think before a reply; 0: not requested."""
    vision: bool = False
    """Whether it reads pictures."""
    sent_to: tuple[str, ...] = Field(default=(), exclude=True)
    """The hosts that requests are sent to. Not part of a saved profile."""
    cache_seconds: Literal[300, 3600] = 300
    """Seconds for which the prompt cache keeps an entry unused, where that can be chosen."""


@dataclass(frozen=True)
class ModelRequest:
    system: str
    """The system prompt; "" sends no system prompt."""
    messages: tuple[Message, ...]
    """The conversation so far; the last message is the user's."""
    call: str
    """Names the request in logs, accounts and recordings, in ASCII: `stage/sample`, for example
    `testing/3` or `ranking/0`."""
    temperature: float | None = None
    """Left out where the model's profile says that the service accepts no temperature."""
    max_tokens: int | None = None
    """The longest reply, in tokens; None: the profile's `max_output`."""
    form: ReplyFormat | None = None
    """A wish: not every service can enforce it, so callers must be able to read any reply."""


class Model(Protocol):
    @property
    def profile(self) -> ModelProfile: ...

    async def complete(self, request: ModelRequest) -> Reply:
        """Request the next message of the conversation.

        Raises:
            ModelUnavailable, ModelMisconfigured, ModelRefused, ContextTooLong: see `ModelError`.
        """
        ...


class ModelWrapper(Model):
    """A `Model` around another one. Subclasses implement `complete`."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def profile(self) -> ModelProfile:
        return self.model.profile


class ScoreUnavailable(ModelError):
    """The server answered, but no score can be computed from its reply."""


class Likelihood(Protocol):
    @property
    def profile(self) -> ModelProfile: ...

    async def first_token(
        self, system: str, question: str, *, call: str
    ) -> tuple[Mapping[str, float], Usage]:
        """The log-probabilities of the likeliest first tokens of an answer, by stripped text.

        Tokens that differ only in surrounding space are merged. `call` names the request in logs
        and accounts.

        Raises:
            ModelError: the call failed. ScoreUnavailable: the reply has no log-probabilities.
        """
        ...

    async def answer(self, question: str, text: str, *, call: str) -> tuple[float, Usage]:
        """The log-probability of `text` as the whole answer to `question`.

        Raises:
            ModelError: the call failed. ScoreUnavailable: the reply has no log-probabilities.
        """
        ...


class Reward(Protocol):
    async def score(self, issue: Issue, diff: str, summary: str = "") -> float:
        """How good an edit is for an issue; scores compare only within one issue.

        `summary`: what the edit's sample left (`Candidate.summary`); a reward model that was
        trained on edits alone does not read it.

        Raises:
            ModelError: there is no score.
            BudgetSpent: the ceiling is reached; nothing was sent.
        """
        ...


FIVE_MINUTES = 300
HOUR = 3600


def cache_lifetime(options: Options) -> Literal[300, 3600]:
    """Seconds, from the longest pause between two requests of one machine.

    Every read renews the entry, so only the longest pause counts, not the whole run: one script at
    its limit, or the nearby tests without and with an edit at theirs, plus a reply. Writing for an
    hour costs 2 times the input price instead of 1.25; missing the cache costs 1.25 times instead
    of 0.1.
    https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    """
    # 90 seconds for a long reply, including the wait for a slot.
    pause = max(options.execution_seconds, 2 * options.nearby_seconds) + 90.0
    return FIVE_MINUTES if pause <= FIVE_MINUTES else HOUR
