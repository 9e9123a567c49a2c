"""The state of a machine: plain data, saved after every step."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

from pydantic import BaseModel, Field

from pipeline.data.types import Usage
from pipeline.models.base import Message, Reply
from pipeline.run_errors import Ceiling


class Phase(StrEnum):
    ASKING = "asking"
    EXECUTING = "executing"
    APPROVED = "approved"
    OUT_OF_ATTEMPTS = "out of attempts"
    OUT_OF_SHARE = "out of share"
    """The share of the run's money that one sample may spend."""
    OUT_OF_CONTEXT = "out of context"
    REFUSED = "refused"
    OUT_OF_BUDGET = "out of budget"
    """Never saved: with a higher ceiling, the machine resumes where it stopped."""

    @property
    def final(self) -> bool:
        """Whether the machine has ended. Every ending keeps any usable work."""
        return self not in (Phase.ASKING, Phase.EXECUTING)


class ReplyKind(StrEnum):
    MALFORMED = "malformed"
    REVISED = "revised"
    APPROVED = "approved"


class State(BaseModel):
    """The state of a machine. Subclasses add the work so far."""

    phase: Phase = Phase.ASKING
    pending: str
    """The user message to send next. Saved, so that a resumed run asks exactly the same
    question."""
    messages: list[Message] = Field(default_factory=list[Message])
    """The conversation so far. It may begin with a user message that several machines share; the
    first question is then a separate message, so that a cached prefix can end between the two."""
    attempts: list[ReplyKind] = Field(default_factory=list[ReplyKind])
    """The kinds of the model's replies, in order."""
    thinking: list[str] = Field(default_factory=list[str])
    """A reasoning model's thoughts before each reply: kept for the record, never sent back."""
    models: list[str] = Field(default_factory=list[str])
    """The model that gave each reply, by the name under which the service answered."""
    usage: Usage = Usage()
    usages: list[Usage] = Field(default_factory=list[Usage])
    """The usage of each reply, parallel to `attempts`; `usage` is their sum."""
    ceiling: str = ""
    """With OUT_OF_BUDGET: the ceiling that was reached, as a sentence. Never saved."""
    reached: Ceiling | None = None
    """With OUT_OF_BUDGET: the owner of that ceiling (see `Ceiling`). Never saved."""

    def describe_end(self) -> str:
        """What ended it before its work was accepted, as a clause; empty if it was."""
        match self.phase:
            case Phase.OUT_OF_ATTEMPTS:
                malformed = self.attempts.count(ReplyKind.MALFORMED)
                count = len(self.attempts)
                replies = f"{count:,} {'reply' if count == 1 else 'replies'}"
                unread = f", {malformed:,} of them in a form that I could not use" * bool(malformed)
                return f"the model had used up its {replies}{unread}"
            case Phase.OUT_OF_SHARE:
                return "the sample had spent its share of the run's money"
            case Phase.OUT_OF_CONTEXT:
                return "the conversation became longer than the model takes"
            case Phase.REFUSED:
                return "the model declined to answer"
            case Phase.OUT_OF_BUDGET:
                return self.ceiling.rstrip(".")
            case _:
                return ""

    def add_reply(self, asked: Sequence[Message], reply: Reply) -> None:
        """Continue the conversation by the reply to `asked`."""
        # No provider accepts an empty message.
        text = reply.text if reply.text.strip() else "(empty reply)"
        self.messages = [*asked, Message(role="assistant", text=text)]
        self.thinking.append(reply.thinking)
        self.models.append(reply.model)
        self.usage = self.usage + reply.usage
        self.usages.append(reply.usage)


S = TypeVar("S", bound=State)
