"""What each provider is asked and answers in its own way; what models think."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from capuchin_demo.recorded.server import RecordedServer
from pipeline.data.types import Issue, Usage
from pipeline.generation.scripts import TestingState
from pipeline.generation.testing import TestingMachine
from pipeline.machine import drive
from pipeline.models.base import (
    ContextTooLong,
    ModelMisconfigured,
    ModelRequest,
    ModelUnavailable,
    ReplyFormat,
)
from pipeline.models.factory import ModelOptions, build_model, profile_of
from pipeline.models.metering import Meter
from pipeline.models.providers.anthropic import AnthropicModel
from pipeline.models.providers.provider_http import Endpoint
from pipeline.models.spec import ModelSpec, parse_spec
from pipeline.models.wrappers import MeteredModel
from pipeline.store import DirStore
from sandbox.frozen import replace
from tests.contracts.models.clients import (
    KEY,
    Kind,
    Serving,
    assistant,
    profile,
    recording,
    serving,
    user,
)
from tests.support.sandboxes import FailingSandbox, bare_workspace
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

BEGUN = (
    b'event: message_start\ndata: {"type": "message_start", "message": {"id": "m", "type": '
    b'"message", "role": "assistant", "model": "m", "content": [], "stop_reason": null, '
    b'"stop_sequence": null, "usage": {"input_tokens": 700, "output_tokens": 1}}}\n\n'
)
LONG = "The quick brown monkey jumps over the lazy dog. " * 200


async def test_the_system_prompt_the_opening_and_the_last_two_user_messages_are_marked() -> None:
    said = (*(one for n in "135" for one in (user(n), assistant("-"))), user("7"))
    async with serving("anthropic", {"reply": "8"}) as at:
        await at.model.complete(ModelRequest("Be brief.", said, call="editing/0"))
    marked = [part.text for part in at.server.requests[0].parts if part.marked]
    assert marked == ["system\nBe brief.", "user\n1", "user\n5", "user\n7"]


async def test_a_turn_reads_what_the_turn_before_it_stored() -> None:
    said = (user(LONG),)
    async with serving("anthropic", {"reply": "yes"}) as at:
        usages = [(await at.model.complete(ModelRequest("Brief.", said, call="editing/0"))).usage]
        for _ in range(2):
            said = (*said, assistant("yes"), user(LONG))
            usages.append(
                (await at.model.complete(ModelRequest("Brief.", said, call="editing/0"))).usage
            )
    stored = usages[0].cache_write
    assert usages[0] == Usage(input=0, output=1, cache_read=0, cache_write=stored)
    assert usages[1].cache_read == stored
    assert usages[2].cache_read == stored + usages[1].cache_write
    assert [usage.input for usage in usages] == [0, 0, 0]


async def test_the_tokens_of_a_broken_answer_are_not_lost() -> None:
    async with serving("anthropic", {"cut": "end", "reply": "half of this"}) as at:
        with pytest.raises(ModelUnavailable) as caught:
            await at.ask("four")
    assert caught.value.usage is not None
    assert caught.value.usage.input > 0


async def test_a_window_that_fills_up_in_mid_answer_is_a_context_too_long() -> None:
    async with serving("anthropic", {"stop": "context", "reply": "So"}) as at:
        with pytest.raises(ContextTooLong) as caught:
            await at.ask()
    assert caught.value.usage is not None


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_an_error_in_mid_answer_means_what_its_type_says(status: int) -> None:
    answer = {"status": status, "late": True, "reply": "half of this"}
    async with serving("anthropic", answer) as at:
        with pytest.raises(ModelMisconfigured, match=f"HTTP {status}"):
            await at.ask()


async def test_a_temperature_that_the_service_does_not_take_is_left_out_from_then_on() -> None:
    wrong = replace(profile("anthropic"), sampling=True)
    async with serving("anthropic", {"reply": "yes"}) as at:
        model = AnthropicModel(wrong, Endpoint(at.url, KEY))
        for _ in range(2):
            reply = await model.complete(
                ModelRequest("", (user("Hello?"),), call="testing/0", temperature=0.5)
            )
            assert reply.text == "yes"
        await model.aclose()
    assert [asked.temperature for asked in at.server.requests] == [None, None]


async def test_what_a_cancelled_call_had_used_by_then_is_counted(tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + BEGUN)
        await writer.drain()
        heard.set()
        await reader.read()  # until the other side hangs up
        writer.close()

    service = await asyncio.start_server(stream, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{service.sockets[0].getsockname()[1]}"
    model = AnthropicModel(profile("anthropic"), Endpoint(url, KEY))
    meter = await Meter.open(DirStore(tmp_path), 10)
    asking = asyncio.ensure_future(
        MeteredModel(model, meter).complete(ModelRequest("", (user("Hello?"),), call="testing/0"))
    )
    await heard.wait()
    for _ in range(50):  # what was sent has to pass through the SDK
        await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait([asking])
    await model.aclose()
    service.close()
    await service.wait_closed()
    assert asking.cancelled()
    (account,) = meter.accounts()
    assert account.usage == Usage(input=700, output=1)
    assert meter.budget.spent == account.dollars > 0


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
    "in code": ("x\n```\n<think>\n</think>\n```\ny", "", "x\n```\n<think>\n</think>\n```\ny"),
    "in the middle": ("x\n<think>Hm.</think>\ny", "Hm.", "x\n\ny"),
}


@pytest.mark.parametrize("case", THOUGHTS)
async def test_a_leading_block_of_thinking_is_no_part_of_the_reply(case: str) -> None:
    said, thought, text = THOUGHTS[case]
    async with serving("openai", {"reply": said}) as at:
        reply = await at.ask()
    assert (reply.thinking, reply.text) == (thought, text)


@pytest.mark.parametrize(("kind", "sentence"), TEXTS["TOO_LONG"])
@pytest.mark.parametrize("late", [False, True], ids=["at once", "inside the stream"])
async def test_a_conversation_that_is_too_long_is_reported_from_other_mistakes(
    kind: Kind, sentence: str, late: bool
) -> None:
    answer = {"status": 400, "error": sentence, "late": late, "reply": "x"}
    async with serving(kind, answer) as at:
        with pytest.raises(ContextTooLong, match="too long"):
            await at.ask()
    assert len(at.server.requests) == 1


if TYPE_CHECKING:
    from tests.contracts.models.clients import Client

SONNET = ModelSpec(provider="anthropic", name="claude-sonnet-4-6")
THINKS = {"reply": "<approve/>", "thinking": "Is it right? Yes."}


def thinker(kind: Kind, at: Serving, tokens: int = 4000) -> "Client":
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


@pytest.mark.parametrize("form", [None, ReplyFormat(json_schema={"type": "object"})])
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
    asked = [(asked.thinking_tokens, bool(asked.response_format)) for asked in server.requests]
    last = [(0, False), (0, False)]
    assert asked == ([(2000, False), *last] if form is None else [(2000, True), (0, True), *last])


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
