"""Batches through Anthropic's real SDK, against the recorded service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from pipeline.concurrency import gather_all
from pipeline.models.base import (
    ContextTooLong,
    ModelMisconfigured,
    ModelRefused,
    ModelRequest,
    ModelRetired,
    ModelUnavailable,
    Price,
)
from pipeline.models.batches import (
    BATCHES_KEY,
    Batches,
    BatchModel,
    SubmittedBatch,
    call_of,
    request_name,
)
from pipeline.models.metering import Meter
from pipeline.models.providers.anthropic import AnthropicModel
from pipeline.models.providers.provider_http import Endpoint
from pipeline.models.wrappers import BatchedOpenings, MeteredModel
from pipeline.store import DirStore
from tests.contracts.models import batch_worker
from tests.contracts.models.batch_worker import LINGER, ask_two
from tests.contracts.models.clients import KEY, assistant, profile, recording, user
from tests.support.recorded.server import RecordedServer


class At(NamedTuple):
    model: BatchedOpenings
    batching: BatchModel
    meter: Meter
    server: RecordedServer
    url: str


@asynccontextmanager
async def batched(root: Path, *answers: dict[str, Any]) -> AsyncGenerator[At]:
    """As a worker builds it, but in a hurry; what it saves is under `root`."""
    server = RecordedServer(recording(*answers), key=KEY)
    async with server.serve() as url:
        service = _anthropic(url)
        store = DirStore(root)
        meter = await Meter.open(store, 10)
        batching = BatchModel(service, store, linger=LINGER, poll=0)
        model = BatchedOpenings(MeteredModel(service, meter), MeteredModel(batching, meter))
        try:
            yield At(model, batching, meter, server, url)
        finally:
            await batching.aclose()
            await service.aclose()


def _anthropic(url: str) -> AnthropicModel:
    return AnthropicModel(profile("anthropic"), Endpoint(url, KEY, sdk_retries=0))


async def opened(at: At, count: int) -> list[str]:
    replies = await gather_all(
        at.model.complete(ModelRequest("Brief.", (user("Hi"),), call=f"testing/{n}"))
        for n in range(count)
    )
    return [reply.text for reply in replies]


async def test_what_opens_conversations_goes_in_one_batch_and_comes_back_in_order(
    tmp_path: Path,
) -> None:
    said = [{"call": f"testing/{n}", "reply": f"reply {n}"} for n in range(3)]
    async with batched(tmp_path, *said) as at:
        assert await opened(at, 3) == ["reply 0", "reply 1", "reply 2"]
        kept = await DirStore(tmp_path).load(BATCHES_KEY, Batches)
    assert kept is not None
    assert set(kept.batch_ids.values()) == {"msgbatch_recorded_1"}
    assert not any(asked.stream for asked in at.server.requests)


async def test_a_batch_is_counted_at_its_price_on_a_line_of_its_own(tmp_path: Path) -> None:
    async with batched(tmp_path, {"reply": "x" * 400}) as at:
        await opened(at, 2)
        said = (user("Hi"), assistant("x"), user("And?"))
        await at.model.complete(ModelRequest("Brief.", said, call="testing/0"))
    in_batch, at_once = at.meter.accounts()
    assert (in_batch.model, at_once.model) == (
        "recorded-claude-haiku-4-5 (batch)",
        "recorded-claude-haiku-4-5",
    )
    price = profile("anthropic").price
    assert price.batch == 0.5
    assert in_batch.dollars == pytest.approx(price.of(in_batch.usage) / 2)
    assert at_once.dollars == pytest.approx(price.of(at_once.usage))


async def test_a_question_asked_again_after_a_crash_waits_for_the_batch_that_it_is_in(
    tmp_path: Path,
) -> None:
    async with batched(tmp_path, {"reply": "yes"}) as at:
        assert await opened(at, 2) == ["yes", "yes"]
        async with (
            aclosing(_anthropic(at.url)) as service,
            aclosing(BatchModel(service, DirStore(tmp_path), linger=0, poll=0)) as again,
        ):
            reply = await again.complete(ModelRequest("Brief.", (user("Hi"),), call="testing/1"))
    assert reply.text == "yes"
    assert len(at.server.requests) == 2, "it was not asked a second time"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"stop": "refusal", "reply": "No."}, ModelRefused),
        ({"stop": "context", "reply": "So"}, ContextTooLong),
        ({"status": 400, "error": "prompt is too long: 9 tokens > 5 maximum"}, ContextTooLong),
        ({"status": 400, "error": "no"}, ModelMisconfigured),
    ],
)
async def test_each_question_of_a_batch_ends_in_its_own_way(
    tmp_path: Path, answer: dict[str, Any], error: type[Exception]
) -> None:
    bad = {"call": "testing/1", **answer}
    async with batched(tmp_path, bad, {"reply": "yes"}) as at:
        good = at.batching.complete(ModelRequest("", (user("Hi"),), call="testing/0"))
        failing = _kind_of_failure(at, error)
        reply, _ = await gather_all([_text(good), failing])
    assert reply == "yes"


async def _text(reply: Any) -> str:
    return (await reply).text


async def _kind_of_failure(at: At, error: type[Exception]) -> str:
    with pytest.raises(error):
        await at.batching.complete(ModelRequest("", (user("Hi"),), call="testing/1"))
    return ""


@pytest.mark.parametrize("answer", [{"cut": "end", "times": 1}, {"status": 529, "times": 1}])
async def test_what_a_batch_did_not_answer_is_asked_at_once(
    tmp_path: Path, answer: dict[str, Any]
) -> None:
    async with batched(tmp_path, {"reply": "yes", **answer}) as at:
        assert await opened(at, 1) == ["yes"]
        assert [asked.stream for asked in at.server.requests] == [False, True]
        kept = await DirStore(tmp_path).load(BATCHES_KEY, Batches)
    assert kept is not None
    assert kept.batch_ids == {}, "asked again, it goes into another batch"


async def test_a_service_without_batches_is_asked_at_once(tmp_path: Path) -> None:
    async with batched(tmp_path, {"reply": "yes"}) as at:
        gateway = _anthropic(f"{at.url}/nowhere")
        batching = BatchModel(gateway, DirStore(tmp_path / "other"), linger=0, poll=0)
        model = BatchedOpenings(at.model, batching)
        reply = await model.complete(
            ModelRequest("", (user("x"), assistant("y"), user("z")), call="testing/0")
        )
        assert reply.text == "yes"
        assert (
            await model.complete(ModelRequest("", (user("Hi"),), call="testing/0"))
        ).text == "yes"
        await batching.aclose()
        await gateway.aclose()


async def test_closing_ends_the_waiting_for_a_batch(tmp_path: Path) -> None:
    async with batched(tmp_path, {"reply": "yes"}) as at:
        service = _anthropic(at.url)
        slow = BatchModel(service, DirStore(tmp_path / "other"), linger=3600)
        asking = asyncio.ensure_future(
            slow.complete(ModelRequest("", (user("Hi"),), call="testing/0"))
        )
        await asyncio.sleep(0)
        await slow.aclose()
        await asyncio.wait([asking])
        await service.aclose()
    assert asking.cancelled()
    assert at.server.requests == []


async def test_killed_between_the_sending_of_a_batch_and_the_keeping_of_its_id_it_is_not_sent_twice(
    tmp_path: Path,
) -> None:
    slow = recording({"call": "testing/1", "reply": "yes", "delay": 3}, {"reply": "yes"})
    server = RecordedServer(slow, key=KEY)
    async with server.serve() as url:
        others = await other_batch(url)
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            batch_worker.__name__,
            url,
            str(tmp_path),
            cwd=Path(__file__).parents[3],
        )
        async with asyncio.timeout(120):
            while len(server.requests) < others + 2:
                await asyncio.sleep(0.02)
        worker.kill()
        await worker.wait()
        kept = await DirStore(tmp_path).load(BATCHES_KEY, Batches)
        assert kept is not None
        assert (kept.batch_ids, len(kept.intents)) == ({}, 1), "its id was not heard of"
        assert await ask_two(url, tmp_path) == ["yes", "yes"]
        kept = await DirStore(tmp_path).load(BATCHES_KEY, Batches)
    assert len(server.requests) == others + 2, "nothing was asked a second time"
    assert kept is not None
    assert (set(kept.batch_ids.values()), kept.intents) == ({"msgbatch_recorded_2"}, ())


async def other_batch(url: str) -> int:
    """Somebody else's with as many questions, and how many those are."""
    async with aclosing(_anthropic(url)) as service:
        asked = {f"elsewhere-{n}": ModelRequest("", (user("Hi"),), "elsewhere") for n in range(2)}
        await service.submit(asked)
    return len(asked)


class Deaf(AnthropicModel):
    """Does not hear that its first batch was taken."""

    heard = False

    async def submit(self, requests: Mapping[str, ModelRequest]) -> str:
        batch = await super().submit(requests)
        if not self.heard:
            self.heard = True
            raise ModelUnavailable("hung up")
        return batch


class Refused(AnthropicModel):
    """Its first batches are not taken, and it cannot always list those that were."""

    tries, listed = 0, 0
    unable = 1

    async def submit(self, requests: Mapping[str, ModelRequest]) -> str:
        self.tries += 1
        if self.tries <= self.unable:
            raise ModelUnavailable("busy")
        return await super().submit(requests)

    async def list_batches(self, since: datetime, until: datetime) -> list[SubmittedBatch]:
        self.listed += 1
        if self.listed == 1:
            raise ModelUnavailable("busy")
        return await super().list_batches(since, until)


class Hopeless(Refused):
    unable = 99


class Gateway(Refused):
    """Takes batches and lists none."""

    async def list_batches(self, since: datetime, until: datetime) -> list[SubmittedBatch]:
        raise ModelRetired("not found")


@pytest.mark.parametrize("kind", [Deaf, Refused, Gateway])
async def test_a_batch_is_sent_again_only_if_it_was_not_taken(
    tmp_path: Path, kind: type[AnthropicModel]
) -> None:
    server = RecordedServer(recording({"reply": "yes"}), key=KEY)
    async with server.serve() as url:
        others = await other_batch(url)
        assert await ask_two(url, tmp_path, kind) == ["yes", "yes"]
    assert len(server.requests) == others + 2


async def test_a_service_that_takes_no_batch_is_given_up_and_nothing_of_it_is_kept(
    tmp_path: Path,
) -> None:
    server = RecordedServer(recording({"reply": "yes"}), key=KEY)
    async with server.serve() as url:
        with pytest.raises(ModelUnavailable):
            await ask_two(url, tmp_path, Hopeless)
        kept = await DirStore(tmp_path).load(BATCHES_KEY, Batches)
    assert kept == Batches()
    assert server.requests == []


async def test_all_batches_of_a_time_are_listed_however_many_pages_they_are() -> None:
    server = RecordedServer(recording({"reply": "yes"}), key=KEY)
    async with server.serve() as url, aclosing(_anthropic(url)) as service:
        asked = {"a-1": ModelRequest("", (user("Hi"),), "a")}
        ids = [await service.submit(asked) for _ in range(101)]
        now, hour = datetime.now(UTC), timedelta(hours=1)
        assert [one.id for one in await service.list_batches(now - hour, now)] == ids[::-1]
        assert await service.list_batches(now + hour, now + hour) == []
        assert await service.list_batches(now - 2 * hour, now - hour) == []


@pytest.mark.parametrize("call", ["testing/3", "approaches", "relevance/" + "x" * 90])
def test_a_name_in_a_batch_says_which_call_it_is(call: str) -> None:
    request = ModelRequest("", (user("Hi"),), call)
    name = request_name(request)
    assert len(name) <= 64
    assert call.startswith(call_of(name))
    assert name != request_name(ModelRequest("other", (user("Hi"),), call))


def test_without_a_price_for_batches_they_cost_the_same() -> None:
    price = Price(input=1, output=2, cache_read=3, cache_write=4)
    assert price.batched == price


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "requests: Field required"),
    ({"requests": []}, "requests: Tuple should have at least 1"),
    ({"requests": [{"custom_id": "a b", "params": {}}]}, "requests.custom_id: String should match"),
    ({"requests": [{"custom_id": "a", "params": {}}] * 2}, "requests: custom_id must be unique"),
]


@pytest.mark.parametrize(("body", "said"), BAD)
async def test_a_batch_that_anthropic_would_refuse_is_refused(
    body: dict[str, Any], said: str
) -> None:
    server = RecordedServer(recording({"reply": "yes"}))
    async with server.serve() as url, httpx2.AsyncClient(base_url=url) as http:
        answer = await http.post("/v1/messages/batches", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(said)


async def test_batches_have_results_only_once_they_have_ended_and_for_those_with_the_key() -> None:
    server = RecordedServer(recording({"reply": "yes"}), key=KEY)
    params = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    body = {"requests": [{"custom_id": "a-1", "params": params}]}
    async with server.serve() as url, httpx2.AsyncClient(base_url=url) as http:
        where = "/v1/messages/batches"
        assert (await http.post(where, json=body)).status_code == 401
        http.headers["x-api-key"] = KEY
        made = (await http.post(where, json=body)).json()["id"]
        assert (await http.get(f"{where}/{made}/results")).status_code == 404
        assert (await http.get(f"{where}/msgbatch_other")).status_code == 404
