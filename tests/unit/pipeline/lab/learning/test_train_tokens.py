"""The tokens of rows, with a tokenizer whose tokens are characters."""

from __future__ import annotations

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

    def apply_chat_template(
        self, messages: Sequence[dict[str, str]], *, add_generation_prompt: bool, **_: Any
    ) -> list[int]:
        said = [
            f"<{one['role']}>{self.before if one['role'] == 'assistant' else ''}{one['content']}"
            for one in messages
        ]
        return [ord(c) for c in "".join(said) + ("<assistant>" if add_generation_prompt else "")]


def test_the_first_tokens_of_both_verdicts_are_compared() -> None:
    asked, good, bad = verdict_tokens(Characters(), PROMPT)
    assert (chr(good), chr(bad)) == ("+", "-")
    assert "".join(map(chr, asked)).endswith("<assistant>")


def test_a_template_that_begins_both_verdicts_alike_is_refused() -> None:
    with pytest.raises(ValueError, match="first token"):
        verdict_tokens(Characters(before="<think></think>"), PROMPT)
