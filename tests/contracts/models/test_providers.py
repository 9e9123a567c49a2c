"""What each provider is asked and answers in its own way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pipeline.data.types import Usage
from pipeline.models.base import ContextTooLong, ModelMisconfigured, ModelRequest, ModelUnavailable
from pipeline.models.metering import Meter
from pipeline.models.providers.anthropic import AnthropicModel
from pipeline.models.providers.provider_http import Endpoint
from pipeline.models.wrappers import MeteredModel
from pipeline.store import DirStore
from sandbox.frozen import replace
from tests.contracts.models.clients import KEY, assistant, profile, serving, user

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


async def test_a_temperature_that_the_service_does_not_take_is_the_operators_mistake() -> None:
    wrong = replace(profile("anthropic"), sampling=True)
    async with serving("anthropic", {"reply": "yes"}) as at:
        model = AnthropicModel(wrong, Endpoint(at.url, KEY))
        with pytest.raises(ModelMisconfigured):
            await model.complete(
                ModelRequest("", (user("Hello?"),), call="testing/0", temperature=0.5)
            )
        await model.aclose()


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
    "in code": ("x\n<think>\n</think>\ny", "", "x\n<think>\n</think>\ny"),
}


@pytest.mark.parametrize("case", THOUGHTS)
async def test_a_leading_block_of_thinking_is_no_part_of_the_reply(case: str) -> None:
    said, thought, text = THOUGHTS[case]
    async with serving("openai", {"reply": said}) as at:
        reply = await at.ask()
    assert (reply.thinking, reply.text) == (thought, text)
