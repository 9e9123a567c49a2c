"""The prepared answers by stage, sample and turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from capuchin_demo.recorded.prompt_cache import PromptPart


class Question(NamedTuple):
    """What a client asks of the model."""

    call: str
    """Its stage and sample, as the client names them in a header."""
    model: str
    parts: Sequence[PromptPart]
    turn: int
    """The number of assistant messages in the prompt."""
    last_user_message: str


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class RecordedAnswer(BaseModel):
    """One entry, which answers a question that meets all its conditions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    call: str = Field(min_length=1)
    """`stage/sample`, or a stage for any of its samples."""
    turn: int | None = Field(default=None, ge=0)
    when: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()
    """Texts that must all occur in the last user message."""
    reply: str = Field(min_length=1)

    def matches(self, question: Question) -> bool:
        """Whether the question meets all conditions."""
        return (
            self.call in (question.call, question.call.split("/")[0])
            and self.turn in (None, question.turn)
            and all(words in question.last_user_message for words in self.when)
        )


class Recording(BaseModel):
    """The whole file. The first matching answer is used."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    note: str = Field(min_length=1)
    """The origin of the answers, as a sentence for people."""
    answers: tuple[RecordedAnswer, ...] = Field(min_length=1)

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read a YAML file."""
        return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def read_question(call: str, body: dict[str, Any]) -> Question:
    """Read the body of a request of either protocol: their texts have one form."""
    anthropic = [("system", body["system"])] if "system" in body else []
    turns: list[tuple[str, Any]] = anthropic
    turns += [(turn["role"], turn["content"]) for turn in body["messages"]]
    blocks = [(role, block) for role, content in turns for block in _list_blocks(content)]
    users = [content for role, content in turns if role == "user"]
    return Question(
        call,
        body["model"],
        [PromptPart(f"{role}\n{one['text']}", "cache_control" in one) for role, one in blocks],
        sum(role == "assistant" for role, _ in turns),
        "".join(block["text"] for block in _list_blocks(users[-1])) if users else "",
    )


def _list_blocks(content: Any) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = content
    if isinstance(content, str):
        blocks = [{"type": "text", "text": content}]
    return [block for block in blocks if block["type"] == "text"]
