"""The tokens of rows, with a tokenizer whose tokens are characters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pipeline.lab.learning.trainer.train_tokens import verdict_tokens

PROMPT = [{"role": "user", "content": "Is it right?"}]


@dataclass(frozen=True)
class Characters:
    """`before` stands before each answer, as templates of models that may think write it."""

    before: str = ""
    thinks: bool = False
    """Whether the template has a switch, and else begins with an open thought."""

    def apply_chat_template(
        self,
        messages: Sequence[dict[str, str]],
        *,
        add_generation_prompt: bool,
        enable_thinking: bool = True,
        **_: Any,
    ) -> list[int]:
        empty = "<think></think>" if self.thinks else ""
        said = [
            f"<{one['role']}>{self.before + empty if one['role'] == 'assistant' else ''}"
            f"{one['content']}"
            for one in messages
        ]
        begun = "<assistant>" + ("" if enable_thinking else empty)
        return [ord(c) for c in "".join(said) + (begun if add_generation_prompt else "")]


def test_the_first_tokens_of_both_verdicts_are_compared() -> None:
    asked, good, bad = verdict_tokens(Characters(), PROMPT)
    assert (chr(good), chr(bad)) == ("+", "-")
    assert "".join(map(chr, asked)).endswith("<assistant>")


def test_a_template_that_begins_both_verdicts_alike_is_refused() -> None:
    with pytest.raises(ValueError, match="first token"):
        verdict_tokens(Characters(before="<think></think>"), PROMPT)


def test_a_model_that_may_think_is_trained_and_asked_without_a_thought() -> None:
    asked, good, bad = verdict_tokens(Characters(thinks=True), PROMPT)
    assert (chr(good), chr(bad)) == ("+", "-")
    assert "".join(map(chr, asked)).endswith("<assistant><think></think>")
