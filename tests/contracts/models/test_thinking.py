"""What reasoning models think: asked for where that can be, kept, and never sent back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.types import Issue
from pipeline.generation.testing import TestingMachine, TestingState
from pipeline.machine import drive
from pipeline.models.base import ModelRequest, ReplyFormat
from pipeline.models.factory import ModelOptions, build_model, profile_of
from pipeline.models.spec import ModelSpec, parse_spec
from pipeline.store import DirStore
from tests.contracts.models.clients import KEY, Kind, Serving, recording, serving, user
from tests.support.sandboxes import FailingSandbox, bare_workspace

if TYPE_CHECKING:
    from tests.contracts.models.clients import Client

SONNET = ModelSpec(provider="anthropic", name="claude-sonnet-4-6")
THINKS = {"reply": "<approve/>", "thinking": "Is it right? Yes."}


def thinker(kind: Kind, at: Serving, tokens: int = 4000) -> Client:
    where = at.url if kind == "anthropic" else f"{at.url}/v1"
    spec = parse_spec(f"{kind}:claude-sonnet-4-6@{where}")
    return build_model(spec, api_key=KEY, options=ModelOptions(thinking_tokens=tokens))


async def test_anthropics_models_think_as_much_as_is_wanted_and_it_is_kept_apart() -> None:
    async with serving("anthropic", THINKS) as at:
        model = thinker("anthropic", at)
        reply = await model.complete(ModelRequest("", (user("Hello?"),), call="testing/0"))
        await model.aclose()
    assert (reply.text, reply.thinking) == ("<approve/>", "Is it right? Yes.")
    assert at.server.requests[0].thinking_tokens == 4000
    assert reply.usage.output == 3 + 5, "thinking is paid as output"


async def test_vllm_is_told_how_much_may_be_thought() -> None:
    async with serving("openai", THINKS) as at:
        model = thinker("openai", at)
        reply = await model.complete(ModelRequest("", (user("Hello?"),), call="testing/0"))
        await model.complete(ModelRequest("", (user("Hello?"),), call="testing/0", max_tokens=4000))
        await model.aclose()
    assert (reply.text, reply.thinking) == ("<approve/>", "Is it right? Yes.")
    assert [asked.thinking_tokens for asked in at.server.requests] == [4000, 0]


@pytest.mark.parametrize("form", [None, ReplyFormat(alternatives=3)])
async def test_a_server_that_cannot_limit_thinking_is_asked_without_and_reported_once(
    form: ReplyFormat | None,
) -> None:
    server = RecordedServer(recording(THINKS), extensions=False)
    async with server.serve() as url:
        model = build_model(
            parse_spec(f"openai:qwen@{url}/v1"),
            api_key=KEY,
            options=ModelOptions(thinking_tokens=2000),
        )
        for _ in range(2):
            reply = await model.complete(
                ModelRequest("", (user("Hello?"),), call="testing/0", form=form)
            )
            assert reply.thinking == "Is it right? Yes."
        await model.aclose()
    asked = [(asked.thinking_tokens, asked.alternatives) for asked in server.requests]
    last = [(0, 0), (0, 0)]
    assert asked == ([(2000, 0), *last] if form is None else [(2000, 3), (0, 3), *last])


async def test_without_a_wish_nobody_is_asked_to_think() -> None:
    async with serving("anthropic", THINKS) as at:
        assert (await at.ask()).thinking == ""
    assert not at.server.requests[0].thinks


async def test_a_reply_without_room_for_thinking_has_none() -> None:
    async with serving("anthropic", THINKS) as at:
        model = thinker("anthropic", at)
        await model.complete(ModelRequest("", (user("Hello?"),), call="testing/0", max_tokens=4000))
        await model.aclose()
    assert at.server.requests[0].thinking_tokens == 0


@pytest.mark.parametrize(
    ("text", "wanted", "tokens"),
    [
        ("anthropic:claude-sonnet-4-6", 0, 0),
        ("anthropic:claude-sonnet-4-6", 1, 1024),
        ("anthropic:claude-sonnet-4-6", 5000, 5000),
        ("anthropic:claude-sonnet-4-6", 64_000, 32_000),
        ("anthropic:claude-of-tomorrow", 5000, 0),
        ("openai:qwen@http://127.0.0.1/v1", 2000, 2000),
        ("openai:qwen@http://127.0.0.1/v1", 64_000, 4096),
        ("openai:qwen@http://127.0.0.1/v1", 0, 0),
    ],
)
def test_only_models_that_can_be_told_are_told_to_think(
    text: str, wanted: int, tokens: int
) -> None:
    profile = profile_of(parse_spec(text), ModelOptions(thinking_tokens=wanted))
    assert profile.thinking_tokens == tokens


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_machine_keeps_all_thinking_and_sends_none_of_it_back(
    kind: Kind, tmp_path: Path
) -> None:
    script = "<script>\nimport sys\nsys.exit(2)\n</script>"
    said = [
        {"turn": 0, "reply": script, "thinking": "I exit with 2."},
        {"turn": 1, "reply": "<approve/>", "thinking": "It is right."},
    ]
    async with serving(kind, *said) as at:
        model = thinker(kind, at)
        issue = Issue(repository="acme/shop", title="It fails", body="")
        resources = bare_workspace(FailingSandbox(), tmp_path).with_model(model)
        machine = TestingMachine(resources, issue, sample=0)
        state = await drive(machine, TestingState, DirStore(tmp_path), "testing/0")
        await model.aclose()
    assert state.thinking == ["I exit with 2.", "It is right."]
    assert state.models == ["recorded-claude-sonnet-4-6"] * 2
    sent = " ".join(m.text for asked in at.server.requests for m in asked.messages)
    assert "I exit with 2." not in sent
    assert len(at.server.requests) == 2
