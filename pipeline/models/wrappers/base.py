"""What clients and wrappers of models share: a question is one value, not five arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.models.base import Message, Model, ModelProfile, Reply, ReplyFormat


@dataclass(frozen=True)
class ModelRequest:
    """The arguments of `Model.complete`."""

    system: str
    messages: tuple[Message, ...]
    call: str
    temperature: float | None = None
    max_tokens: int | None = None
    form: ReplyFormat | None = None

    @property
    def is_opening(self) -> bool:
        """Whether it begins a conversation."""
        return all(message.role == "user" for message in self.messages)

    def with_max_tokens(self, tokens: int) -> ModelRequest:
        """The same, with a reply of at most `tokens`."""
        return replace(self, max_tokens=tokens)

    async def send_to(self, model: Model) -> Reply:
        """What `model` says to it. Raises as `Model.complete`."""
        return await model.complete(
            self.system,
            self.messages,
            call=self.call,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            form=self.form,
        )


class ModelAdapter(ABC):
    """A `Model` that takes each question as one value."""

    @property
    @abstractmethod
    def profile(self) -> ModelProfile: ...

    async def complete(
        self,
        system: str,
        messages: Sequence[Message],
        *,
        call: str,
        temperature: float | None = None,
        max_tokens: int | None = None,
        form: ReplyFormat | None = None,
    ) -> Reply:
        """See `Model.complete`, and the class for what else it does and raises."""
        conversation = tuple(messages)
        return await self.answer(
            ModelRequest(system, conversation, call, temperature, max_tokens, form)
        )

    @abstractmethod
    async def answer(self, request: ModelRequest) -> Reply:
        """Raises as `Model.complete`."""


class ModelWrapper(ModelAdapter):
    """A `Model` around another. Subclasses say in `answer` what they do differently."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def profile(self) -> ModelProfile:
        return self.model.profile
