"""Where a machine stands: plain data, saved after every step."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from pydantic import BaseModel, Field

from pipeline.errors import Ceiling
from pipeline.models.base import Message
from pipeline.types import Usage


class Phase(StrEnum):
    ASKING = "asking"
    EXECUTING = "executing"
    APPROVED = "approved"
    OUT_OF_ATTEMPTS = "out of attempts"
    OUT_OF_CONTEXT = "out of context"
    REFUSED = "refused"
    OUT_OF_BUDGET = "out of budget"
    """Never saved: with a higher ceiling the machine goes on where it stood."""

    @property
    def final(self) -> bool:
        """Whether the machine has ended. Every end leaves usable work, if there is any."""
        return self not in (Phase.ASKING, Phase.EXECUTING)


class ReplyKind(StrEnum):
    """What one model reply was."""

    MALFORMED = "malformed"
    REVISED = "revised"
    APPROVED = "approved"


class State(BaseModel):
    """Where a machine stands. Subclasses add the work done so far."""

    phase: Phase = Phase.ASKING
    pending: str
    """The user message to send next. Saved, so that a resumed run asks the very same question."""
    messages: list[Message] = Field(default_factory=list[Message])
    """The conversation so far. It may open with a user message that several machines share: the
    first question is then a second one, so that a cache can end between the two."""
    attempts: list[ReplyKind] = Field(default_factory=list[ReplyKind])
    """One for each model reply."""
    thinking: list[str] = Field(default_factory=list[str])
    """What a reasoning model thought before each reply: kept for the record, never sent back."""
    models: list[str] = Field(default_factory=list[str])
    """Which model gave each reply, by the name that the service answered under."""
    usage: Usage = Usage()
    ceiling: str = ""
    """With OUT_OF_BUDGET: which ceiling was reached, as a sentence. Never saved."""
    reached: Ceiling | None = None
    """With OUT_OF_BUDGET: whose ceiling that is. Never saved."""


S = TypeVar("S", bound=State)
