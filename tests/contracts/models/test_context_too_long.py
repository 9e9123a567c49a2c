"""The sentences by which services say that a conversation is too long."""

from __future__ import annotations

import pytest

from pipeline.models.base import ContextTooLong
from tests.contracts.models.clients import Kind, serving


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("anthropic", "prompt is too long: 208656 tokens > 200000 maximum"),
        (
            "anthropic",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, "
            "decrease input length or `max_tokens` and try again",
        ),
        (
            "openai",
            "This model's maximum context length is 16384 tokens. However, you requested 122946 "
            "tokens (112946 in the messages, 10000 in the completion).",
        ),
        (
            "openai",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        ),
        (
            "openai",
            "You passed 5000 input tokens and requested 10 output tokens. However, the model's "
            "context length is only 4096 tokens.",
        ),
        (
            "openai",
            "the request exceeds the available context size. try increasing the context size",
        ),
    ],
)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "inside the stream"])
async def test_a_conversation_that_is_too_long_is_reported_from_other_mistakes(
    kind: Kind, sentence: str, late: bool
) -> None:
    answer = {"status": 400, "error": sentence, "late": late, "reply": "x"}
    async with serving(kind, answer) as at:
        with pytest.raises(ContextTooLong, match="too long"):
            await at.ask()
    assert len(at.server.requests) == 1
