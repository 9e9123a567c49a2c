"""A recording: prepared answers, selected by stage, sample, turn and content."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from bot.recorded.requests import ReceivedRequest


class RecordingError(Exception):
    """The file is not a recording; the text says where and why."""


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
    def _check_fields(self) -> RecordedAnswer:
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
            _matches_call(self.call, received.call)
            and self.turn in (None, received.turn)
            and all(words in received.last_user_message for words in self.when)
            and all(words in received.system for words in self.when_system)
            and all(words in received.prefill for words in self.when_answer)
        )


def _matches_call(pattern: str, call: str) -> bool:
    return fnmatchcase(call, pattern) or call.partition("/")[0] == pattern


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
    def load(cls, path: Path) -> Recording:
        """Read a YAML or JSON file.

        Raises:
            RecordingError: the file is not valid; the text has one line for each error.
        """
        try:
            data: object = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise RecordingError(f"{path.name} cannot be read: {error}") from error
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            lines = [f"{_field_path(e['loc'])}: {e['msg']}" for e in error.errors()]
            raise RecordingError(f"{path.name} is no recording.\n" + "\n".join(lines)) from error


def _field_path(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in loc) or "the file"
