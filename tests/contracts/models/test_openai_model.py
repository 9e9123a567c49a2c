"""What is particular to servers that speak chat completions."""

from __future__ import annotations

import pytest

from pipeline.models.base import ModelRequest
from tests.contracts.models.clients import assistant, serving, user


async def test_roles_alternate_because_many_chat_templates_refuse_two_in_a_row() -> None:
    said = (user("the issue"), user("one file"), assistant("relevant"), user("another file"))
    async with serving("openai", {"reply": "not relevant"}) as at:
        await at.model.complete(ModelRequest("Be brief.", said, call="relevance"))
    (asked,) = at.server.requests
    assert list(asked.messages) == [
        user("the issue\n\none file"),
        assistant("relevant"),
        user("another file"),
    ]


async def test_what_a_reasoning_parser_sets_apart_is_kept_apart() -> None:
    async with serving("openai", {"reply": "<approve/>", "thinking": "Is it right? Yes."}) as at:
        reply = await at.ask()
    assert (reply.text, reply.thinking) == ("<approve/>", "Is it right? Yes.")


THOUGHTS = {
    "a whole block": ("<think>\nHm.\n</think>\n\n<approve/>", "Hm.", "<approve/>"),
    "opened by the chat template": ("Hm.\n</think>\n\n<approve/>", "Hm.", "<approve/>"),
    "cut off": ("<think>\nHm, on and on", "Hm, on and on", ""),
    "empty": ("<think>\n\n</think>\n\n<approve/>", "", "<approve/>"),
    "only spoken of": ("split at '</think>' here", "", "split at '</think>' here"),
    "in code": ("x\n<think>\n</think>\ny", "", "x\n<think>\n</think>\ny"),
}


@pytest.mark.parametrize("case", THOUGHTS)
async def test_a_leading_block_of_thinking_is_no_part_of_the_reply(case: str) -> None:
    said, thought, text = THOUGHTS[case]
    async with serving("openai", {"reply": said}) as at:
        reply = await at.ask()
    assert (reply.thinking, reply.text) == (thought, text)
