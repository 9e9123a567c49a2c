"""What is particular to servers that speak chat completions."""

from __future__ import annotations

from tests.contracts.models.support import assistant, serving, user


async def test_roles_alternate_because_many_chat_templates_refuse_two_in_a_row() -> None:
    said = [user("the issue"), user("one file"), assistant("relevant"), user("another file")]
    async with serving("openai", {"reply": "not relevant"}) as at:
        await at.model.complete("Be brief.", said, call="relevance")
    (asked,) = at.server.requests
    assert list(asked.messages) == [
        user("the issue\n\none file"),
        assistant("relevant"),
        user("another file"),
    ]
