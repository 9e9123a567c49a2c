"""The recorded service, asked by the vendors' own SDKs and by requests that they never send."""

import socket
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from capuchin_demo.recorded.server import RecordedServer
from pipeline.models.base import ModelMisconfigured
from tests.contracts.models.clients import KEY, recording, serving
from tests.support.no_paid_services import PaidServiceReached

ASK: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hello?"}],
}


PATHS = ("/v1/messages", "/v1/chat/completions")


async def test_anthropics_sdk_reads_an_answer_that_is_not_streamed() -> None:
    server = RecordedServer(recording({"reply": "Hi."}))
    async with server.serve() as url, anthropic.AsyncAnthropic(api_key=KEY, base_url=url) as sdk:
        message = await sdk.messages.create(
            model="claude-x", max_tokens=9, messages=[{"role": "user", "content": "Hello?"}]
        )
    assert message.content[0].type == "text"
    assert (message.content[0].text, message.stop_reason) == ("Hi.", "end_turn")
    assert message.model == "recorded-claude-x"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (3, 1)


async def test_anthropics_sdk_lists_models() -> None:
    server = RecordedServer(recording({"reply": "Hi."}))
    async with server.serve() as url, anthropic.AsyncAnthropic(api_key=KEY, base_url=url) as sdk:
        models = [model.id async for model in sdk.models.list()]
    assert models == ["recorded-claude-sonnet-4-6"]
    assert server.requests == []


async def test_openais_sdk_reads_an_answer_that_is_not_streamed() -> None:
    server = RecordedServer(recording({"reply": "Hi."}))
    async with (
        server.serve() as url,
        openai.AsyncOpenAI(api_key="EMPTY", base_url=f"{url}/v1") as sdk,
    ):
        answer = await sdk.chat.completions.create(
            model="qwen", messages=[{"role": "user", "content": "Hello?"}]
        )
        models = [model.id async for model in sdk.models.list()]
    assert answer.choices[0].message.content == "Hi."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "recorded-qwen"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 4
    assert models == ["recorded-claude-sonnet-4-6", "recorded-qwen"]


async def test_openais_sdk_sees_a_refusal() -> None:
    server = RecordedServer(recording({"reply": "No.", "stop": "refusal"}))
    async with (
        server.serve() as url,
        openai.AsyncOpenAI(api_key="EMPTY", base_url=f"{url}/v1") as sdk,
    ):
        answer = await sdk.chat.completions.create(
            model="recorded-qwen", messages=[{"role": "user", "content": "Hello?"}]
        )
    assert answer.choices[0].message.refusal == "No."
    assert answer.model == "recorded-qwen"


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_question_without_an_answer_is_refused_and_remembered(kind: Any) -> None:
    only = {"call": "ranking", "reply": "1, 2, 3"}
    async with serving(kind, only) as at:
        with pytest.raises(ModelMisconfigured) as caught:
            await at.ask("Which test?", call="testing/4")
    assert "'testing/4', turn 0" in str(caught.value.__cause__)
    assert at.server.unexpected == [("testing/4", 0, "Which test?")]


async def test_a_secret_is_not_kept_with_the_request() -> None:
    async with serving("anthropic", {"reply": "yes"}) as at:
        await at.ask()
    (asked,) = at.server.requests
    assert KEY not in asked.model_dump_json()
    assert asked.headers["anthropic-version"]


async def _post(url: str, body: dict[str, Any]) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url) as http:
        return await http.post("/v1/messages", json=body)


FIVE_MARKS = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}] * 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_tokens": None}, "max_tokens:"),
        ({"temperature": 0.5}, "temperature: Extra inputs are not permitted"),
        ({"messages": []}, "messages:"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages.0.content.0.text.text:"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages.0.role:"),
        ({"system": FIVE_MARKS}, "A maximum of 4 blocks with cache_control may be provided."),
        ({"model": ""}, "model:"),
    ],
)
async def test_what_anthropics_service_would_refuse_is_refused(
    change: dict[str, Any], said: str
) -> None:
    async with RecordedServer(recording({"reply": "yes"})).serve() as url:
        response = await _post(url, {**ASK, **change})
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert response.json()["error"]["message"].startswith(said)


async def test_what_is_not_json_is_refused_by_both_protocols() -> None:
    server = RecordedServer(recording({"reply": "yes"}))
    async with server.serve() as url, httpx2.AsyncClient(base_url=url) as http:
        answers = [await http.post(path, content=b"{") for path in PATHS]
    assert [answer.status_code for answer in answers] == [400] * len(PATHS)


async def test_a_wrong_key_opens_no_door() -> None:
    server = RecordedServer(recording({"reply": "yes"}), key=KEY)
    async with server.serve() as url, httpx2.AsyncClient(base_url=url) as http:
        http.headers["x-api-key"] = "wrong"
        answers = [await http.post(path, json=ASK) for path in PATHS]
        answers.append(await http.get("/v1/models"))
    assert [answer.status_code for answer in answers] == [401] * (len(PATHS) + 1)


async def test_an_answer_that_breaks_off_is_no_json() -> None:
    async with RecordedServer(recording({"reply": "yes", "cut": "end"})).serve() as url:
        response = await _post(url, ASK)
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        response.json()


def test_no_test_can_reach_a_paid_service() -> None:
    with pytest.raises(PaidServiceReached):
        socket.getaddrinfo("api.anthropic.com", 443)
