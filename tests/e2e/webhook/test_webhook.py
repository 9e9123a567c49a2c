"""Deliveries over a real socket: which are believed, which are answered, what is recorded."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from bot.data.run import RepoRef, RunStatus
from bot.server.app import create_app
from bot.settings import Settings
from bot.storage import requests
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from bot.webhooks.payload import MAX_BODY_BYTES
from pipeline.concurrency import gather_all
from sandbox.frozen import replace
from tests.e2e.webhook.delivery import deliver, labeled, serving, sign
from tests.support.hub import SECRET
from tests.support.redis_traffic import count_traffic

pytestmark = [pytest.mark.spine, pytest.mark.usefixtures("check_keys_declared")]

BODY = json.dumps(labeled()).encode()


async def test_a_label_becomes_a_queued_run(client: httpx.AsyncClient, runs: Runs) -> None:
    answer = await deliver(client, labeled(), delivery="guid-1")
    assert answer.status_code == 202
    run = await runs.get(answer.json()["run"])
    assert run is not None
    assert run.repo == RepoRef(id=3, owner="acme", name="shop", installation=99)
    assert (run.issue, run.asked_by, run.delivery) == (7, "ann", "guid-1")
    assert run.status is RunStatus.QUEUED
    assert await runs.list_active() == [run.id]


async def test_a_label_is_recorded_in_one_step_and_announced_as_a_job(
    client: httpx.AsyncClient, storage: Storage, redis: Redis
) -> None:
    await deliver(client, labeled())  # the scripts are loaded, the connection is open
    other = labeled(repository={"id": 4, "name": "other", "owner": {"login": "acme"}})
    scripts = (await redis.info("commandstats"))["cmdstat_evalsha"]["calls"]
    async with count_traffic(redis) as traffic:
        answer = await deliver(client, other)
    assert answer.status_code == 202
    assert (await redis.info("commandstats"))["cmdstat_evalsha"]["calls"] - scripts == 1
    assert traffic.commands <= 21  # those in the scripts and six of arq among them
    queued = await redis.zrange(storage.keys.queue, 0, -1)
    assert f"{storage.keys.prefix}{answer.json()['run']}#0".encode() in queued


FORGED = "sha256=" + "0" * 64


@pytest.mark.parametrize(
    "signature",
    [
        pytest.param("", id="missing"),
        pytest.param(sign(BODY, "another secret"), id="another secret"),
        pytest.param(sign(BODY + b" "), id="another body"),
        pytest.param(sign(BODY).removeprefix("sha256="), id="bare"),
        pytest.param("sha1=" + "a" * 40, id="sha1"),
        pytest.param("sha256=" + "g" * 64, id="no hex"),
        pytest.param(sign(BODY).upper().replace("SHA", "sha"), id="upper case"),
        pytest.param(sign(BODY) + " ,x", id="more behind it"),
        pytest.param(b"sha256=" + "ä".encode() * 32, id="not ASCII, UTF-8"),
        pytest.param(b"sha256=" + b"\xff" * 64, id="not ASCII"),
        pytest.param("sha256=" + "a" * 100_000, id="endless"),
    ],
)
async def test_a_wrong_signature_is_401(
    client: httpx.AsyncClient, runs: Runs, signature: str | bytes
) -> None:
    answer = await deliver(client, BODY, headers={"X-Hub-Signature-256": signature})
    # uvicorn's own limit on headers answers 400 before we see an endless one
    assert answer.status_code == 401 or (len(signature) > 65_000 and answer.status_code == 400)
    assert await runs.list_active() == []


async def test_while_the_secret_changes_both_count_and_nothing_between(settings: Settings) -> None:
    changing = replace(settings, webhook_secret=SecretStr(f"older,,{SECRET}"))
    async with serving(create_app(changing)) as client:
        for secret, counts in (("older", 1), (SECRET, 1), ("", 0), (f"older,,{SECRET}", 0)):
            given: dict[str, str | bytes] = {"X-Hub-Signature-256": sign(BODY, secret)}
            answer = await deliver(client, BODY, headers=given)
            assert (answer.status_code != 401) == bool(counts), secret


async def test_a_second_label_joins_the_active_run(client: httpx.AsyncClient, runs: Runs) -> None:
    first = await deliver(client, labeled())
    other_case = labeled(repository={"id": 3, "name": "Shop", "owner": {"login": "ACME"}})
    second = await deliver(client, other_case, delivery="guid-2")
    assert second.status_code == 202
    assert second.json() == {"run": first.json()["run"], "status": "running"}
    replay = await deliver(client, other_case, delivery="guid-2")
    assert replay.json() == {"run": first.json()["run"], "status": "repeated"}


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        pytest.param("workflow_dispatch", {}, id="unknown event"),
        pytest.param("issues", {"action": "milestoned"}, id="another action"),
        pytest.param(
            "issues", labeled(sender={"login": "capuchin[bot]", "type": "Bot"}), id="by ourselves"
        ),
    ],
)
async def test_what_we_do_not_act_on_is_204(
    client: httpx.AsyncClient, runs: Runs, event: str, payload: dict[str, Any]
) -> None:
    answer = await deliver(client, payload, event=event)
    assert (answer.status_code, answer.content) == (204, b"")
    assert await runs.list_active() == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="broken JSON"),
        pytest.param(b"\xff\xfe", id="no UTF-8"),
        pytest.param(b"[" * 100_000, id="bottomless"),
        pytest.param(b"[1]", id="a list"),
        pytest.param(json.dumps(labeled(installation=None)).encode(), id="no installation"),
        pytest.param(json.dumps(labeled(issue={"number": -1})).encode(), id="negative issue"),
        pytest.param(
            json.dumps(labeled(repository=labeled()["repository"] | {"name": "../x"})).encode(),
            id="a path as name",
        ),
    ],
)
async def test_a_malformed_body_is_400_with_a_sentence(
    client: httpx.AsyncClient, runs: Runs, body: bytes
) -> None:
    answer = await deliver(client, body)
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert await runs.list_active() == []


@pytest.mark.parametrize("delivery", ["", "a b", "x" * 65, "../up"])
async def test_a_delivery_without_an_id_is_400(client: httpx.AsyncClient, delivery: str) -> None:
    answer = await deliver(client, labeled(), delivery=delivery)
    assert answer.status_code == 400


async def test_a_streamed_body_over_the_limit_is_413(client: httpx.AsyncClient) -> None:
    async def endless() -> AsyncGenerator[bytes]:
        for _ in range(MAX_BODY_BYTES // 2**20 + 2):
            yield b" " * 2**20

    answer = await client.post(
        "/webhook", content=endless(), headers={"X-Hub-Signature-256": FORGED}
    )
    assert answer.status_code == 413


async def test_two_hundred_deliveries_at_once_are_all_accounted_for(
    client: httpx.AsyncClient, runs: Runs
) -> None:
    answers = await gather_all(
        deliver(client, labeled(issue={"number": 1 + n % 50})) for n in range(200)
    )
    assert {answer.status_code for answer in answers} == {202}
    assert [answer.json()["status"] for answer in answers].count("created") == 50
    assert {answer.json()["run"] for answer in answers} == set(await runs.list_active())


@pytest.mark.parametrize(
    ("host", "status"), [("github.com", 202), ("GitHub.com", 202), ("ghe.acme.test", 400)]
)
async def test_a_webhook_of_another_github_is_distinguished(
    client: httpx.AsyncClient, host: str, status: int
) -> None:
    answer = await deliver(client, labeled(), headers={"X-GitHub-Enterprise-Host": host})
    assert answer.status_code == status
    if status == 400:
        assert "CAPUCHIN_GITHUB_URL" in answer.json()["error"]


async def test_a_signed_body_under_another_id_is_the_same_delivery(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signature covers the body alone: who saw a delivery can send it again."""
    monkeypatch.setattr(requests, "EQUAL_SECONDS", 0)
    first = await deliver(client, labeled(), delivery="guid-1")
    again = await deliver(client, labeled(), delivery="guid-2")
    told = {"run": first.json()["run"], "status": "repeated"}
    assert (again.status_code, again.json()) == (200, told)
