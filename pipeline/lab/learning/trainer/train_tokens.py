"""Tokens of training rows: exactly those that a server of the model computes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
Messages = Sequence[Mapping[str, str]]


def read_rows(path: Path, split: str) -> Iterator[dict[str, Any]]:
    """The rows of one side of a file of JSON lines."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip() and (row := json.loads(line))["split"] == split:
                yield row


_NO_THOUGHT = {"enable_thinking": False}
"""The switch of templates that may think, Qwen3's for one; servers are asked with the same."""


def prompt_tokens(tokenizer: Any, prompt: Messages, **switches: bool) -> list[int]:
    """What a chat completion computes on before its first token."""
    return list(
        tokenizer.apply_chat_template(
            list(prompt), add_generation_prompt=True, tokenize=True, return_dict=False, **switches
        )
    )


def answer_tokens(
    tokenizer: Any, prompt: Messages, answer: Messages, *, ends: bool
) -> tuple[list[int], list[int]]:
    """The tokens of a prompt and of its answer; `ends`: with those that end a turn.

    A policy must learn to end. A reward is read from the answer alone, without a thought before it:
    the server is asked with `continue_final_message`.

    Raises:
        ValueError: the chat template writes the prompt differently once an answer follows.
    """
    switches = {} if ends else _NO_THOUGHT
    asked = prompt_tokens(tokenizer, prompt, **switches)
    whole = list(
        tokenizer.apply_chat_template(
            [*prompt, *answer],
            add_generation_prompt=False,
            continue_final_message=not ends,
            tokenize=True,
            return_dict=False,
            **switches,
        )
    )
    if whole[: len(asked)] != asked or len(whole) == len(asked):
        raise ValueError(
            "The model's chat template writes a prompt differently once an answer follows, so that "
            "training would differ from serving: use a base model with another template."
        )
    return asked, whole[len(asked) :]


def verdict_tokens(tokenizer: Any, prompt: Messages) -> tuple[list[int], int, int]:
    """The tokens of a prompt, and the first ones of the verdicts `+` and `-` after it.

    Raises:
        ValueError: as `answer_tokens`, or both begin alike, so that a server, which is asked for
            one token, could not tell them apart.
    """
    asked, good = answer_tokens(tokenizer, prompt, _say("+"), ends=False)
    _, bad = answer_tokens(tokenizer, prompt, _say("-"), ends=False)
    if good[0] == bad[0]:
        raise ValueError(
            "The model's chat template begins every answer alike, such as with an empty thought, "
            "so that the first token is no verdict: use a base model that does not think."
        )
    return asked, good[0], bad[0]


def _say(text: str) -> Messages:
    return [{"role": "assistant", "content": text}]


def completion_example(tokenizer: Any, row: Row, *, ends: bool) -> dict[str, list[int]]:
    """A row of SFT in the tokens that `SFTTrainer` takes as they are."""
    asked, answer = answer_tokens(tokenizer, row["prompt"], row["completion"], ends=ends)
    return {
        "input_ids": asked + answer,
        "completion_mask": [0] * len(asked) + [1] * len(answer),
    }


def preference_example(tokenizer: Any, row: Row) -> dict[str, list[int]]:
    """A row of DPO in the tokens of `DataCollatorForPreference`."""
    asked, chosen = answer_tokens(tokenizer, row["prompt"], row["chosen"], ends=False)
    _, rejected = answer_tokens(tokenizer, row["prompt"], row["rejected"], ends=False)
    return {"prompt_ids": asked, "chosen_ids": chosen, "rejected_ids": rejected}


def count_tokens(example: Mapping[str, Sequence[int]]) -> int:
    """The length of the longest sequence of an example."""
    if "input_ids" in example:
        return len(example["input_ids"])
    longer = max(len(example["chosen_ids"]), len(example["rejected_ids"]))
    return len(example["prompt_ids"]) + longer
