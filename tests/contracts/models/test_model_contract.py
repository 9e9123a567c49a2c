"""What `Model` promises, kept by both clients."""

import asyncio

import pytest

from pipeline.data.types import Usage
from pipeline.models.base import (
    ContextTooLong,
    ModelError,
    ModelMisconfigured,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
)
from tests.contracts.models.clients import (
    KEY,
    NAME,
    Kind,
    assistant,
    client,
    profile,
    serving,
    user,
)

pytestmark = pytest.mark.parametrize("kind", ["anthropic", "openai"])

LONG = "The quick brown monkey jumps over the lazy dog. " * 200


async def test_the_reply_says_what_the_service_said_and_that_it_is_recorded(kind: Kind) -> None:
    async with serving(kind, {"reply": "Hello, " + LONG}) as at:
        reply = await at.ask()
    assert reply.text == "Hello, " + LONG
    assert reply.model == f"recorded-{NAME}"
    assert reply.stopped == "end"
    assert reply.usage.output == len(reply.text) // 4 + 1


async def test_the_whole_conversation_arrives_in_order(kind: Kind) -> None:
    said = (user("one"), assistant("two"), user("three"))
    async with serving(kind, {"reply": "four"}) as at:
        await at.model.complete(ModelRequest("Be brief.", said, call="editing/3"))
    (asked,) = at.server.requests
    assert asked.system == "Be brief."
    assert tuple(asked.messages) == said
    assert asked.model == NAME


async def test_the_call_is_named_in_a_header(kind: Kind) -> None:
    async with serving(kind, {"reply": "yes"}) as at:
        await at.ask(call="ranking/2")
    assert at.server.requests[0].headers["x-capuchin-call"] == "ranking/2"


@pytest.mark.parametrize("call", ["prüfung/0", "testing/0\r\nx: y"])
async def test_a_call_that_is_not_ascii_is_a_mistake_of_ours(kind: Kind, call: str) -> None:
    async with serving(kind, {"reply": "yes"}) as at:
        with pytest.raises(ValueError, match="call"):
            await at.ask(call=call)
    assert at.server.requests == []


async def test_an_empty_system_prompt_is_left_out(kind: Kind) -> None:
    async with serving(kind, {"reply": "yes"}) as at:
        await at.model.complete(ModelRequest("", (user("Hello?"),), call="testing/0"))
    assert len(at.server.requests[0].parts) == 1


async def test_text_of_any_language_survives(kind: Kind) -> None:
    text = 'Grüße, 世界 🐒 \x00 \u2028 \\ " </s>'
    async with serving(kind, {"reply": text}) as at:
        reply = await at.ask(text)
    assert reply.text == text
    assert at.server.requests[0].last_user_message == text


async def test_half_a_surrogate_is_replaced_on_both_ways(kind: Kind) -> None:
    async with serving(kind, {"reply": "yes"}) as at:
        await at.ask(b"caf\xe9".decode("utf-8", "surrogateescape"))
    assert at.server.requests[0].last_user_message == "caf?"


async def test_what_was_sent_before_is_read_from_the_cache(kind: Kind) -> None:
    said = (user(LONG),)
    async with serving(kind, {"reply": "yes"}) as at:
        first = await at.model.complete(ModelRequest(LONG, said, call="editing/0"))
        said = (*said, assistant("yes"), user(LONG))
        second = await at.model.complete(ModelRequest(LONG, said, call="editing/0"))
    assert first.usage.cache_read == 0
    prompt = first.usage.input + first.usage.cache_write
    assert second.usage.cache_read == prompt >= 4_800
    assert second.usage.input + second.usage.cache_write < prompt


async def test_the_temperature_is_sent_only_where_the_service_takes_one(kind: Kind) -> None:
    async with serving(kind, {"reply": "yes"}) as at:
        await at.ask(temperature=0.5)
        await at.ask()
    sent = [asked.temperature for asked in at.server.requests]
    assert sent == ([0.5, None] if profile(kind).sampling else [None, None])


async def test_as_many_tokens_are_asked_for_as_the_model_can_give(kind: Kind) -> None:
    async with serving(kind, {"reply": "yes"}) as at:
        await at.ask()
        await at.ask(max_tokens=7)
    assert [asked.max_tokens for asked in at.server.requests] == [profile(kind).max_output, 7]


async def test_a_reply_cut_at_its_length_says_so(kind: Kind) -> None:
    async with serving(kind, {"reply": "one two three four"}) as at:
        reply = await at.ask(max_tokens=2)
    assert (reply.text, reply.stopped) == ("one two ", "length")


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
async def test_what_only_the_operator_can_mend_is_misconfigured(kind: Kind, status: int) -> None:
    async with serving(kind, {"status": status, "error": f"secret {KEY}"}) as at:
        with pytest.raises(ModelMisconfigured, match=f"HTTP {status}") as caught:
            await at.ask()
    assert KEY not in str(caught.value)
    assert len(at.server.requests) == 1
    assert isinstance(caught.value.__cause__, Exception)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_what_passes_by_itself_is_unavailable_after_two_retries(
    kind: Kind, status: int
) -> None:
    async with serving(kind, {"status": status}) as at:
        with pytest.raises(ModelUnavailable, match=f"HTTP {status}"):
            await at.ask()
    assert len(at.server.requests) == 3


async def test_a_moment_of_overload_is_not_noticed(kind: Kind) -> None:
    async with serving(kind, {"status": 529, "times": 1, "reply": "yes"}) as at:
        reply = await at.ask()
    assert reply.text == "yes"
    assert len(at.server.requests) == 2


async def test_a_request_that_is_too_large_is_a_context_too_long(kind: Kind) -> None:
    async with serving(kind, {"status": 413}) as at:
        with pytest.raises(ContextTooLong):
            await at.ask()


@pytest.mark.parametrize("cut", ["end", "drop"])
async def test_half_an_answer_is_no_answer(kind: Kind, cut: str) -> None:
    async with serving(kind, {"cut": cut, "reply": "half of this"}) as at:
        with pytest.raises(ModelUnavailable):
            await at.ask()


@pytest.mark.parametrize("status", [500, 529])
async def test_an_error_in_mid_answer_is_unavailable(kind: Kind, status: int) -> None:
    async with serving(kind, {"status": status, "late": True, "reply": "half of this"}) as at:
        with pytest.raises(ModelUnavailable):
            await at.ask()


async def test_a_refusal_is_reported_from_an_answer(kind: Kind) -> None:
    async with serving(kind, {"stop": "refusal", "reply": "I cannot."}) as at:
        with pytest.raises(ModelRefused) as caught:
            await at.ask()
    assert caught.value.usage is not None
    assert caught.value.usage.output == 3


async def test_a_service_that_is_not_there_is_unavailable(kind: Kind) -> None:
    async with serving(kind, {"reply": "yes"}) as at:
        url = at.url
    model = client(kind, url, sdk_retries=0)
    with pytest.raises(ModelUnavailable):
        await model.complete(ModelRequest("", (user("Hello?"),), call="testing/0"))
    await model.aclose()


async def test_a_service_that_stays_silent_is_unavailable(kind: Kind) -> None:
    slow = {"reply": "yes", "delay": 0.4}
    async with serving(kind, slow, silence_seconds=0.05, sdk_retries=0) as at:
        with pytest.raises(ModelUnavailable):
            await at.ask()


async def test_a_wrong_key_is_misconfigured_and_never_named(kind: Kind) -> None:
    wrong = "sk-wrong-987"
    async with serving(kind, {"reply": "yes"}, api_key=wrong) as at:
        with pytest.raises(ModelMisconfigured) as caught:
            await at.ask()
    assert wrong not in str(caught.value)


@pytest.mark.parametrize("key", ["", "two words", "line\n", "schlüssel"])
def test_what_cannot_be_a_key_is_misconfigured_at_once(kind: Kind, key: str) -> None:
    with pytest.raises(ModelMisconfigured):
        client(kind, "http://127.0.0.1:9", api_key=key)


async def test_key_and_address_of_the_environment_are_not_used(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{name}_API_KEY", "sk-of-the-environment")
        monkeypatch.setenv(f"{name}_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-environment")
    async with serving(kind, {"reply": "yes"}) as at:
        assert (await at.ask()).text == "yes"


HTML = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9\r\n"
    b"connection: close\r\n\r\n<p>Hi</p>"
)
NONSENSE = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"connection: close\r\n\r\nevent: message_start\ndata: {nonsense\n\n"
)


async def _asking_a_server_that_sends(kind: Kind, response: bytes) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = client(kind, f"http://127.0.0.1:{port}")
    try:
        await model.complete(ModelRequest("", (user("Hello?"),), call="testing/0"))
    finally:
        await model.aclose()
        server.close()
        await server.wait_closed()


async def test_a_web_page_instead_of_a_model_is_misconfigured(kind: Kind) -> None:
    with pytest.raises(ModelMisconfigured):
        await _asking_a_server_that_sends(kind, HTML)


async def test_nonsense_instead_of_an_answer_is_unavailable(kind: Kind) -> None:
    with pytest.raises(ModelUnavailable):
        await _asking_a_server_that_sends(kind, NONSENSE)


async def test_every_error_is_a_model_error_with_one_sentence(kind: Kind) -> None:
    async with serving(kind, {"status": 404}) as at:
        with pytest.raises(ModelError) as caught:
            await at.ask()
    assert str(caught.value).startswith(f"{kind}:{NAME} at 127.0.0.1 ")
    assert "404" in str(caught.value)
    assert caught.value.usage in (None, Usage())


@pytest.mark.parametrize("status", [302, 307])
async def test_a_service_that_sends_on_to_another_host_is_not_followed(
    kind: Kind, status: int
) -> None:
    async with serving(kind, {"reply": "stolen"}) as elsewhere:
        there = elsewhere.url.replace("127.0.0.1", "localhost")
        away = f"HTTP/1.1 {status} Away\r\nLocation: {there}\r\nContent-Length: 0\r\n\r\n"
        with pytest.raises(ModelMisconfigured):
            await _asking_a_server_that_sends(kind, away.encode())
        assert elsewhere.server.requests == []
        assert elsewhere.server.unexpected == []
