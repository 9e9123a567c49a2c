"""Failures on request, and operations that the hub does not implement."""

from __future__ import annotations

import time

from tests.contracts.github.hub_api import HubApi


async def test_a_call_fails_before_it_has_an_effect(world: HubApi) -> None:
    await world.hub.open_issue(world.repo, "t", None, "bob")
    world.hub.faults.fail_next("POST", "/repos/acme/shop/issues/1/comments", status=502)
    failed = await world.call("POST", "~/issues/1/comments", {"body": "c"})
    assert failed.status_code == 502
    assert world.repo.issues[1].comments == []
    again = await world.call("POST", "~/issues/1/comments", {"body": "c"})
    assert again.status_code == 201


async def test_a_call_fails_after_its_effect(world: HubApi) -> None:
    world.hub.faults.fail_next("POST", "/repos/*/issues", status=502, after_effect=True)
    failed = await world.call("POST", "~/issues", {"title": "t"})
    assert failed.status_code == 502
    assert [issue.title for issue in world.repo.issues.values()] == ["t"]


async def test_a_fault_strikes_as_often_as_asked(world: HubApi) -> None:
    world.hub.faults.fail_next("GET", "/repos/acme/shop", status=503, times=2)
    statuses = [(await world.call("GET", "~")).status_code for _ in range(3)]
    assert statuses == [503, 503, 200]


async def test_a_call_is_slow_on_request(world: HubApi) -> None:
    world.hub.faults.fail_next("GET", "/repos/acme/shop", status=None, delay_s=0.05)
    before = time.monotonic()
    assert (await world.call("GET", "~")).status_code == 200
    assert time.monotonic() - before >= 0.05


async def test_the_rate_limit_is_403_with_the_time_of_its_end(world: HubApi) -> None:
    before = time.time()
    world.hub.limit_rate(requests=1, reset_in=60)
    after = time.time()
    assert (await world.call("GET", "~")).headers["x-ratelimit-remaining"] == "0"
    refused = await world.call("GET", "~")
    assert refused.status_code == 403
    assert before + 59 <= int(refused.headers["x-ratelimit-reset"]) <= after + 62
    facts = (await world.call("GET", "/rate_limit")).json()["rate"]
    assert facts["remaining"] == 0


async def test_the_rate_limit_ends(world: HubApi) -> None:
    world.hub.limit_rate(requests=0, reset_in=-1)
    assert (await world.call("GET", "~")).status_code == 200


async def test_the_secondary_limit_is_429_with_retry_after(world: HubApi) -> None:
    world.hub.limit_rate(requests=0, reset_in=700, secondary=True)
    refused = await world.call("GET", "~")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "700")


async def test_an_operation_that_the_hub_lacks_is_a_loud_501(world: HubApi) -> None:
    answer = await world.http.get(f"{world.hub.url}/api/v3/gists")
    assert answer.status_code == 501
    assert world.hub.unexpected == ["GET /gists"]
    world.hub.unexpected.clear()
    world.log.problems.clear()


async def test_every_request_is_noted_with_who_made_it(world: HubApi) -> None:
    await world.call("GET", "~/issues", state="all")
    last = world.hub.requests[-1]
    assert world.repo.installation is not None
    assert (last.method, last.path, last.query, last.status) == (
        "GET",
        "/repos/acme/shop/issues",
        (("state", "all"),),
        200,
    )
    assert (last.actor, last.installation) == ("capuchin[bot]", world.repo.installation.id)
