"""What services that call themselves compatible answer, as their references and users show it.

The stand-ins here are sockets that speak as each does; docs/operating.md lists them.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from pipeline.data.types import Usage
from pipeline.models.base import (
    ContextTooLong,
    Message,
    Model,
    ModelError,
    ModelMisconfigured,
    ModelOverloaded,
    ModelRefused,
    ModelRequest,
    ModelRetired,
    ModelUnavailable,
    ModelUnreachable,
    NoCredit,
    Price,
    Reply,
    ReplyFormat,
    WindowTooSmall,
    WrongAddress,
    WrongKey,
)
from pipeline.models.factory import ModelOptions, build_model
from pipeline.models.metering import Meter
from pipeline.models.spec import parse_spec
from pipeline.models.wrappers import MeteredModel
from pipeline.run_errors import BudgetSpent
from pipeline.store import DirStore

Body = dict[str, Any]
Service = Callable[[Body], bytes]


def answer(body: object, status: int = 200, kind: str = "application/json") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + data


def refusal(message: str, status: int = 400, **more: Any) -> bytes:
    return answer({"error": {"message": message, **more}}, status)


def stream(*events: object) -> bytes:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return answer("".join((*lines, "data: [DONE]\n\n")).encode(), kind="text/event-stream")


def piece(content: object = None, finish: str | None = None, **delta: Any) -> Body:
    choice = {"index": 0, "delta": {"content": content, **delta}, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def counted(**usage: Any) -> Body:
    return {"object": "chat.completion.chunk", "model": "m", "choices": [], "usage": usage}


COUNTED = counted(prompt_tokens=700, completion_tokens=5, total_tokens=705)
FINE = stream(piece("yes"), piece(None, "stop"), COUNTED)


class Asked:
    """The client of a service on a socket, and the requests that it sent."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.bodies: list[Body] = []

    async def ask(self, text: str = "Hello?", form: ReplyFormat | None = None) -> Reply:
        messages = (Message(role="user", text=text),)
        return await self.model.complete(
            ModelRequest("Be brief.", messages, call="editing/0", temperature=0.6, form=form)
        )


@asynccontextmanager
async def asking(
    service: Service,
    *,
    kind: str = "openai",
    name: str = "m",
    tls: ssl.SSLContext | None = None,
    **options: Any,
) -> AsyncGenerator[Asked]:
    bodies: list[Body] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        bodies.append(json.loads(await reader.readexactly(length)))
        writer.write(service(bodies[-1]))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0, ssl=tls, limit=1 << 24)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"http{'s' if tls else ''}://localhost:{port}{'/v1' if kind == 'openai' else ''}"
        client = build_model(
            parse_spec(f"{kind}:{name}@{url}"),
            api_key="sk-0123456789",
            sdk_retries=0,
            options=ModelOptions(**options),
        )
        asked = Asked(client)
        asked.bodies = bodies
        try:
            yield asked
        finally:
            await client.aclose()


def unless(names: tuple[str, ...], refuse: Callable[[str], bytes]) -> Service:
    """A service that refuses the first of `names` in a request."""

    def respond(body: Body) -> bytes:
        return next((refuse(name) for name in names if name in body), FINE)

    return respond


def without_system(sentence: str, status: int) -> Service:
    return lambda body: (
        refusal(sentence, status) if body["messages"][0]["role"] == "system" else FINE
    )


def openai_says(name: str) -> bytes:
    return refusal(
        f"Unsupported parameter: '{name}' is not supported with this model.",
        type="invalid_request_error", param=name, code="unsupported_parameter",
    )  # fmt: skip


def mistral_says(name: str) -> bytes:
    entry: Body = {
        "type": "extra_forbidden",
        "loc": ["body", name],
        "msg": "Extra inputs",
        "input": {},
    }
    return answer({"detail": [entry]}, 422)


def google_says(name: str) -> bytes:
    message = f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
    return answer([{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}], 400)


def shorter(longest: int, sentence: str) -> Service:
    return lambda body: refusal(sentence) if body["max_tokens"] > longest else FINE


DECLINES: dict[str, Service] = {
    "OpenAI's reasoning models": unless(("max_tokens", "temperature"), openai_says),
    "Azure: stream_options": unless(
        ("stream_options",), lambda name: refusal(f"Unrecognized request argument: {name}")
    ),
    "Mistral": unless(("stream_options", "chat_template_kwargs"), mistral_says),
    "Gemini's compatible door": unless(("thinking_token_budget", "response_format"), google_says),
    "LiteLLM": unless(
        ("response_format", "temperature"),
        lambda name: refusal(f"litellm.UnsupportedParamsError: does not support: ['{name}']"),
    ),
    "an organisation that may not stream": unless(
        ("stream",), lambda name: openai_says(name)
    ),
    "vLLM, no system role": without_system("System role not supported", 400),
    "SGLang, no system role": without_system("System role not supported", 500),
    "Gemma at Google": without_system("Developer instruction is not enabled for m", 400),
    "LM Studio, no system role": without_system(
        "Error rendering prompt: Only user and assistant roles are supported!", 400
    ),
    "vLLM, longest reply": shorter(
        900, "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum "
        "context length is 1000 tokens and your request has 100 input tokens."
    ),
    "DeepSeek, longest reply": shorter(
        8000, "Invalid max_tokens value, the valid range of max_tokens is [1, 8000]"
    ),
    "Groq, longest reply": shorter(4000, "`max_tokens` must be less than or equal to `4000`"),
}  # fmt: skip


@pytest.mark.parametrize("case", DECLINES)
async def test_what_a_service_declines_is_left_out_and_never_sent_again(case: str) -> None:
    form = ReplyFormat(json_schema={"type": "object"})

    def service(body: Body) -> bytes:
        said = DECLINES[case](body)
        whole = {
            "model": "m",
            "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
        }
        return said if body.get("stream") or said != FINE else answer({**whole, **COUNTED, **whole})

    async with asking(service, thinking_tokens=2000) as at:
        assert (await at.ask(form=form)).text == "yes"
        first = len(at.bodies)
        assert first > 1
        assert (await at.ask(form=form)).text == "yes"
        assert len(at.bodies) == first + 1
        said = json.dumps(at.bodies[-1]["messages"])
        assert "Be brief." in said
        assert "Hello?" in said
        limits = {"max_tokens", "max_completion_tokens"} & at.bodies[-1].keys()
        assert len(limits) == 1, "the longest reply is always limited: it is paid"


async def test_what_declines_everything_is_refused_after_a_few_questions() -> None:
    async with asking(lambda body: openai_says([*body][-1]), thinking_tokens=2000) as at:
        with pytest.raises(ModelMisconfigured):
            await at.ask()
        assert len(at.bodies) < 12


SHAPES: dict[str, tuple[bytes, str, str, Usage | None]] = {
    "Azure's notes of its filter": (
        stream({"choices": [], "prompt_filter_results": ["x"]}, piece("yes"),
               {"model": "m", "choices": [{"delta": None, "finish_reason": "stop"}]}, COUNTED),
        "yes", "", Usage(input=700, output=5),
    ),
    "choices are null": (
        stream(piece("yes", "stop"), {**COUNTED, "choices": None}), "yes", "",
        Usage(input=700, output=5),
    ),
    "usage is empty": (stream(piece("yes", "stop"), counted()), "yes", "", None),
    "usage of nothing": (
        stream(piece("yes", "stop"), counted(prompt_tokens=0, completion_tokens=0)),
        "yes", "", None,
    ),
    "usage is text": (
        stream(piece("yes", "stop"), counted(prompt_tokens="many", completion_tokens=None)),
        "yes", "", None,
    ),
    "no usage": (stream(piece("yes", "stop")), "yes", "", None),
    "Mistral's parts": (
        stream(piece([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]),
               piece([{"type": "text", "text": "yes"}], "stop"), COUNTED),
        "yes", "Hm.", Usage(input=700, output=5),
    ),
    "DeepSeek": (
        stream(piece(None, reasoning_content="Hm."), piece("yes", "stop"),
               counted(prompt_tokens=700, completion_tokens=5, prompt_cache_hit_tokens=600)),
        "yes", "Hm.", Usage(input=100, output=5, cache_read=600),
    ),
    "OpenRouter": (
        stream(piece("", reasoning="Hm."), piece("yes", "stop"), COUNTED),
        "yes", "Hm.", Usage(input=700, output=5),
    ),
    "Ollama, thoughts in the text": (
        stream(piece("<think>\nHm.\n</think>\n\nyes", "stop"), COUNTED), "yes", "Hm.",
        Usage(input=700, output=5),
    ),
    "Groq": (
        stream(piece("yes"), {**piece(None, "stop"), "x_groq": {"usage": COUNTED["usage"]}}),
        "yes", "", Usage(input=700, output=5),
    ),
    "Gemini, thoughts outside the completion": (
        stream(piece("yes", "stop"),
               counted(prompt_tokens=700, completion_tokens=5, total_tokens=1705)),
        "yes", "", Usage(input=700, output=1005),
    ),
    "not streamed": (
        answer({"model": "m", "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
                "usage": COUNTED["usage"]}),
        "yes", "", Usage(input=700, output=5),
    ),
    "pieces of no known form": (
        stream(None, 7, "x", [], {"choices": "x"}, {"choices": [None]}, piece(7),
               piece("yes", "stop"), COUNTED),
        "yes", "", Usage(input=700, output=5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SHAPES)
async def test_a_reply_of_any_form_is_read(case: str) -> None:
    said, text, thinking, usage = SHAPES[case]
    async with asking(lambda body: said) as at:
        reply = await at.ask()
    assert (reply.text, reply.thinking) == (text, thinking)
    assert reply.uncounted == (usage is None)
    assert reply.usage == (usage or reply.usage)
    assert reply.usage.input > 0


REFUSALS: list[tuple[str, bytes, type[ModelError]]] = [
    *(
        (f"too long: {sentence}", refusal(sentence, status), ContextTooLong)
        for status, sentence in (
            (400, "Requested token count exceeds the model's maximum context length of 9 tokens."),
            (400, "The input (9000 tokens) is longer than the model's context length (4096)."),
            (400, "max_tokens must be at least 1, got -72."),
            (400, "The number of tokens to keep from the initial prompt is greater than the "
                  "context length"),
            (400, "The input token count (9) exceeds the maximum number of tokens allowed (4)."),
            (400, "Prompt contains 9 tokens, too large for model with 4 maximum context length"),
            (400, "This model's maximum prompt length is 4 but the request contains 9 tokens."),
            (400, "ContextWindowExceededError: Input is too long for requested model."),
            (400, "Your request exceeded model token limit: 4096"),
            (400, "Prompt exceeds max length"),
            (400, "Range of input length should be [1, 30720]"),
            (422, "`inputs` tokens + `max_new_tokens` must be <= 4096."),
            (500, "the request exceeds the available context size"),
            (413, "Request too large for model: tokens per minute (TPM): Limit 6000"),
        )
    ),
    ("Azure's filter", refusal("Filtered", code="content_filter", param="prompt"), ModelRefused),
    ("OpenAI's", refusal("Invalid prompt", code="invalid_prompt"), ModelRefused),
    ("Qwen's", refusal("No.", code="data_inspection_failed"), ModelRefused),
    ("empty account", refusal("quota", 429, code="insufficient_quota"), NoCredit),
    ("DeepSeek's account", refusal("Insufficient Balance", 402), NoCredit),
    ("a limit that passes", refusal("quota per minute", 429, code="insufficient_quota"),
     ModelOverloaded),
    ("Groq's retired", refusal("It has been decommissioned", code="model_decommissioned"),
     ModelRetired),
    ("OpenRouter's name", refusal("x is not a valid model ID"), ModelRetired),
    ("Ollama's name", refusal("model 'x' not found, try pulling it first", 404), ModelRetired),
    ("Google's key", refusal("API key not valid. Please pass a valid API key."), WrongKey),
    ("a gateway's 400", refusal("The engine is overloaded"), ModelOverloaded),
    ("a proxy's page", answer(b"<html>Blocked", 403, "text/html"), WrongKey),
    ("a page for 400", answer(b"<html>Bad request", 400, "text/html"), WrongAddress),
    ("JSON of something else", answer({"status": "ok"}), WrongAddress),
    ("an error in place of a piece", stream({"code": 500, "message": "no"}), ModelUnavailable),
    ("vLLM's, in the stream", stream({"object": "error", "message": "No.", "code": 400}),
     ModelMisconfigured),
    ("OpenRouter's, in a choice", stream({"choices": [{"delta": {}, "finish_reason": "error",
     "error": {"code": 502, "message": "upstream"}}]}), ModelUnavailable),
    ("ended by an error", stream(piece("a"), piece(None, "error"), COUNTED), ModelUnavailable),
    ("aborted", stream(piece("a"), piece(None, "abort"), COUNTED), ModelUnavailable),
    ("Gemini's safety", stream(piece("a"), piece(None, "SAFETY"), COUNTED), ModelRefused),
    ("cut", answer(f"data: {json.dumps(piece('a'))}\n\n".encode(), kind="text/event-stream"),
     ModelUnavailable),
    ("nested without end", answer(b"data: " + b"[" * 100_000 + b"\n\n", kind="text/event-stream"),
     ModelUnavailable),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSALS)), ids=[name for name, *_ in REFUSALS])
async def test_a_refusal_is_told_as_what_it_is(case: int) -> None:
    _, said, kind = REFUSALS[case]
    async with asking(lambda body: said) as at:
        with pytest.raises(ModelError) as caught:
            await at.ask()
    assert type(caught.value) is kind or (
        kind is ModelUnavailable and isinstance(caught.value, ModelUnreachable)
    )


async def test_what_the_service_said_is_kept_for_the_operator_without_the_key() -> None:
    text = "Key sk-0123456789 is\n\x1b[31m unknown " + "x" * 500
    said = answer({"request_id": "req_01", "error": {"message": text}}, 401)
    async with asking(lambda body: said) as at:
        with pytest.raises(WrongKey) as caught:
            await at.ask()
    words = caught.value.words
    assert words.startswith("Key … is")  # and not an id of the request
    assert words.isprintable()
    assert len(words) <= 200
    assert "unknown" not in str(caught.value)


def cut_at(read: int) -> Service:
    usage = counted(prompt_tokens=read, completion_tokens=6)
    return lambda body: stream(piece("I see no question."), piece(None, "stop"), usage)


async def test_a_server_that_cuts_the_prompt_without_a_word_is_told() -> None:
    async with asking(cut_at(4090)) as at:
        with pytest.raises(WindowTooSmall, match="num_ctx") as caught:
            await at.ask("word " * 14_000)
        assert caught.value.usage == Usage(input=4090, output=6)
        await at.ask("word " * 4000)
        await at.ask("x" * 80_000)


def events(*chunks: object, done: bool = True) -> bytes:
    lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return f"{lines}{'data: [DONE]' * done}\n\n".encode()


WHOLE = "It subtracts where it should add, so I change the sign."
MESSAGE: Body = {"choices": [{"delta": {}, "message": {"content": WHOLE}, "finish_reason": "stop"}]}
ENDINGS = {
    "no reason, but done": (events(piece(WHOLE)), "text/event-stream"),
    "the message again": (events(piece(WHOLE), MESSAGE), "text/event-stream"),
    "the text again": (events(piece(WHOLE), piece(WHOLE, "stop")), "text/event-stream"),
    "text/plain": (events(piece(WHOLE), piece(None, "stop")), "text/plain; charset=utf-8"),
    "octet-stream": (events(piece(WHOLE), piece(None, "stop")), "application/octet-stream"),
    "capitals": (events(piece(WHOLE), piece(None, "stop")), "Text/Event-Stream"),
    "no reason, text/plain": (events(piece(WHOLE)), "text/plain"),
    "JSON called text": (json.dumps(MESSAGE).encode(), "text/plain"),
    "JSON without a reason": (
        json.dumps({"choices": [{"message": {"content": WHOLE}}]}).encode(),
        "application/json",
    ),
    "a comment as data": (
        b"data: : OPENROUTER PROCESSING\n\n" + events(piece(WHOLE), piece(None, "stop")),
        "text/event-stream",
    ),
    "pings between": (
        b"id: 1\ndata:\n\n: ping\n\n" + events(piece(WHOLE, ""), piece(None, "stop")),
        "text/event-stream",
    ),
}


@pytest.mark.parametrize("case", ENDINGS)
async def test_a_stream_is_read_whatever_it_is_called_and_however_it_ends(case: str) -> None:
    """alfredapp/openai-workflow#52, can1357/oh-my-pi#9433 (no reason),
    abundantbeing/hermes-browser-extension#11 (the message again), nearai/private-ml-sdk#20,
    BYK/loreai#1195 (content types); mudler/LocalAI#788 (JSON without a reason),
    mnfst/llm-gateway#2053, theopenco/llmgateway#2334 (pings), ollama/ollama#4357 (no words)."""
    data, kind = ENDINGS[case]
    async with asking(lambda body: answer(data, kind=kind)) as at:
        assert (await at.ask()).text == WHOLE


@pytest.mark.parametrize("ends", [True, False])
async def test_a_ceiling_holds_where_no_usage_is_streamed(ends: bool, tmp_path: Path) -> None:
    pieces = [piece("word " * 3000), *([piece(None, "stop")] if ends else [])]
    meter = await Meter.open(DirStore(tmp_path), 1.0)
    price = Price(input=25, output=125)
    async with asking(lambda body: stream(*pieces), price=price, max_output=1000) as at:
        at.model = MeteredModel(at.model, meter)
        for _ in range(30):
            try:
                await at.ask("x" * 20_000)
            except ModelUnavailable:
                assert not ends
            except BudgetSpent:
                break
    assert len(at.bodies) < 30
    assert 0.5 < meter.budget.spent <= 2.0
    (account,) = meter.accounts()
    assert not ends or "bound" in account.price_note


async def test_a_certificate_that_nobody_trusts_is_named() -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("localhost").configure_cert(tls)
    async with asking(lambda body: FINE, tls=tls) as at:
        with pytest.raises(WrongAddress, match=r"certificate.*SSL_CERT_FILE"):
            await at.ask()


@pytest.mark.parametrize(
    ("url", "cause"),
    [("http://127.0.0.1:1", "refused"), ("http://nowhere.invalid", "name is not known")],
)
async def test_why_a_service_cannot_be_reached_is_said(url: str, cause: str) -> None:
    client = build_model(parse_spec(f"openai:m@{url}/v1"), api_key="k", sdk_retries=0)
    with pytest.raises(ModelUnreachable, match=cause):
        await Asked(client).ask()
    await client.aclose()


@pytest.mark.parametrize(
    "proxy", ["nonsense://127.0.0.1:1", "http://[::1", "http://127.0.0.1:1", "socks5://127.0.0.1:1"]
)
async def test_a_proxy_that_does_not_work_is_told(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ModelError, match=r"proxy|reached"):
        await Asked(build_model(parse_spec("openai:m@http://x.invalid/v1"), api_key="k")).ask()


def anthropic_stream(*events: Body) -> bytes:
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return answer("".join(lines).encode(), kind="text/event-stream")


async def test_anthropics_protocol_without_usage_is_counted_by_a_bound() -> None:
    said = anthropic_stream(
        {"type": "message_start", "message": {"model": "m", "content": []}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "yes"}},
        {"type": "content_block_delta", "delta": None},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    )
    async with asking(lambda body: said, kind="anthropic", name="claude-sonnet-4-6") as at:
        reply = await at.ask()
    assert (reply.text, reply.uncounted) == ("yes", True)
    assert reply.usage.output > 0
