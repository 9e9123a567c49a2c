"""Tokens of training rows: exactly those that a server of the model computes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Messages = Sequence[Mapping[str, str]]


Example = dict[str, list[int]]
"""A row in the tokens that TRL's trainers take as they are."""
_NOT_LEARNT = -100
_THINK, _THOUGHT = "<think>", "</think>\n\n"
"""How a thought begins in a row, and what is between it and its answer."""
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
    tokenizer: Any, prompt: Messages, answer: Messages, *, ends: bool, thinks: bool = False
) -> tuple[list[int], list[int]]:
    """The tokens of a prompt and of its answer; `ends`: with those that end a turn; `thinks`: the
    switch of templates that may think is not turned off.

    A policy must learn to end. A reward is read from the answer alone, without a thought before it:
    the server is asked with `continue_final_message`.

    Raises:
        ValueError: the chat template writes the prompt differently once an answer follows.
    """
    switches = {} if thinks else _NO_THOUGHT
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


def may_think(tokenizer: Any) -> bool:
    """Whether the chat template is of a model that thinks, by a switch or always."""
    asked, off = (
        tokenizer.decode(prompt_tokens(tokenizer, [{"role": "user", "content": "?"}], **switches))
        for switches in ({}, _NO_THOUGHT)
    )
    return asked != off or asked.rstrip().endswith(_THINK)


def conversation_examples(
    tokenizer: Any, row: Row, most: int, *, thinks: bool, thoughts: bool
) -> tuple[list[Example], int, int, int]:
    """A policy's row in tokens; how many of its replies these hold, end too late, lack a thought.

    A conversation is one example with a loss on each reply, where each then stands after exactly
    the tokens that a server computes it on; elsewhere, each reply is one. It ends with the last
    reply within `most` tokens. A model that `thinks` learns only replies with a thought. Without
    `thoughts`, none is learnt, and such a model is asked with its switch off.

    Raises ValueError as `answer_tokens`.
    """
    begun, masked = len(row["prompt"]), row.get("masked") or ()
    said = [*row["prompt"], *(one if thoughts else _cut_thought(one) for one in row["completion"])]
    found: list[Example] = []
    kept = too_long = thoughtless = 0
    for at in range(begun, len(said)):
        if said[at]["role"] != "assistant" or at - begun in masked:
            continue
        if thinks and thoughts and not said[at]["content"].startswith(_THINK):
            thoughtless += 1
            continue
        asked, answer = answer_tokens(
            tokenizer, said[:at], [said[at]], ends=True, thinks=not thinks or thoughts
        )
        if len(asked) + len(answer) > most:
            too_long += 1
            continue
        kept += 1
        labels = [_NOT_LEARNT] * len(asked) + answer
        if found and asked[: len(before := found[-1]["input_ids"])] == before:
            labels[: len(before)] = found.pop()["labels"]
        found.append({"input_ids": asked + answer, "labels": labels})
    return found, kept, too_long, thoughtless


def _cut_thought(said: Mapping[str, str]) -> Mapping[str, str]:
    text = said["content"]
    return {**said, "content": text.partition(_THOUGHT)[2]} if text.startswith(_THINK) else said


def verdict_example(tokenizer: Any, row: Row) -> Example:
    """A row of a process reward model."""
    asked, answer = answer_tokens(tokenizer, row["prompt"], row["completion"], ends=False)
    return {"input_ids": asked + answer, "labels": [_NOT_LEARNT] * len(asked) + answer}


def preference_example(tokenizer: Any, row: Row) -> Example:
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
