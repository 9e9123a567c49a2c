"""Outgoing webhooks: when they are sent, their signatures, and redelivery."""

import hashlib
import hmac
import re
from collections.abc import AsyncGenerator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from bot.server.connections import serve_app
from capuchin_demo.hub.webhooks import Delivery
from tests.contracts.github.hub_api import HubApi

Received = list[tuple[dict[str, str], bytes]]


@pytest.fixture
async def received(world: HubApi) -> AsyncGenerator[Received, None]:
    """The requests that a real receiver got. It responds 202, but 500 to comments."""
    got: Received = []

    async def receive(request: Request) -> Response:
        got.append((dict(request.headers), await request.body()))
        kind = request.headers["x-github-event"]
        return PlainTextResponse("noted", 500 if kind == "issue_comment" else 202)

    routes = [Route("/webhook", receive, methods=["POST"])]
    async with serve_app(Starlette(routes=routes), "127.0.0.1", 0) as url:
        world.hub.webhook_url = f"{url}/webhook"
        yield got
        await world.hub.wait_until_delivered()


def kinds(deliveries: list[Delivery]) -> list[str]:
    return [f"{one.event}.{one.action}" if one.action else one.event for one in deliveries]


async def test_no_webhook_is_sent_into_a_connection_that_the_receiver_may_be_closing(
    world: HubApi,
) -> None:
    senders: list[int] = []

    async def receive(request: Request) -> Response:
        assert request.client is not None
        senders.append(request.client.port)
        return PlainTextResponse("noted", 202)

    routes = [Route("/webhook", receive, methods=["POST"])]
    async with serve_app(Starlette(routes=routes), "127.0.0.1", 0) as url:
        world.hub.webhook_url = f"{url}/webhook"
        for title in ("one", "two", "three"):
            await world.hub.open_issue(world.repo, title, "b", "bob")
        await world.hub.wait_until_delivered()
    assert len(senders) == len(set(senders)) >= 3


async def test_the_signature_is_over_the_very_bytes(world: HubApi, received: Received) -> None:
    await world.hub.open_issue(world.repo, "ünïcode </script> \ud83d\ude00", "b", "bob")
    headers, body = received[0]
    expected = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert headers["x-hub-signature-256"] == f"sha256={expected}"
    assert body == world.hub.deliveries[0].body


async def test_the_headers_are_githubs(world: HubApi, received: Received) -> None:
    await world.hub.open_issue(world.repo, "t", None, "bob")
    headers, _ = received[0]
    assert headers["x-github-event"] == "issues"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", headers["x-github-delivery"])
    assert headers["x-github-hook-id"].isdigit()
    assert headers["x-github-hook-installation-target-id"] == "7"
    assert headers["x-github-hook-installation-target-type"] == "integration"
    assert headers["user-agent"].startswith("GitHub-Hookshot/")
    assert headers["content-type"] == "application/json"


async def test_each_verb_sends_its_event_in_order(world: HubApi, received: Received) -> None:
    hub = world.hub
    issue = await hub.open_issue(world.repo, "t", "b", "bob", labels=["bug"])
    await hub.edit_issue(issue, "bob", title="better", body="longer")
    await hub.add_label(issue, "capuchin", "alice")
    await hub.remove_label(issue, "capuchin", "alice")
    await hub.assign(issue, "alice", "alice")
    comment = await hub.comment(issue, "c", "bob")
    await hub.edit_comment(comment, "d", "bob")
    await hub.delete_comment(comment, "bob")
    await hub.close_issue(issue, "alice")
    await hub.reopen_issue(issue, "alice")
    await hub.delete_issue(issue, "alice")
    assert kinds(hub.deliveries) == [
        *("issues.opened", "issues.labeled", "issues.edited", "issues.labeled"),
        *("issues.unlabeled", "issues.assigned", "issue_comment.created"),
        *("issue_comment.edited", "issue_comment.deleted"),
        *("issues.closed", "issues.reopened", "issues.deleted"),
    ]
    assert [body for _, body in received] == [one.body for one in hub.deliveries]


async def test_pull_requests_and_pushes_send_theirs(world: HubApi) -> None:
    hub = world.hub
    await hub.commit(world.repo, "fix", {"a.py": "1\n"}, "Add", "alice")
    asked = {"title": "Fix", "head": "fix", "base": "main"}
    await world.call("POST", "~/pulls", asked)
    await world.call("POST", "~/pulls/1/requested_reviewers", {"reviewers": ["alice"]})
    await world.call("POST", "~/pulls/1/reviews", {"event": "COMMENT", "body": "x"})
    await hub.commit(world.repo, "fix", {"a.py": "2\n"}, "Change", "alice")
    await hub.add_label(world.repo.pulls[0], "bug", "alice")
    await hub.remove_label(world.repo.pulls[0], "bug", "alice")
    await hub.edit_issue(world.repo.pulls[0], "alice", title="Fixed")
    await hub.close_issue(world.repo.pulls[0], "alice")
    await hub.reopen_issue(world.repo.pulls[0], "alice")
    assert kinds(hub.deliveries) == [
        *("check_suite.requested", "push", "pull_request.opened"),
        *("pull_request.review_requested", "pull_request_review.submitted"),
        *("check_suite.requested", "push", "pull_request.synchronize"),
        *("pull_request.labeled", "pull_request.unlabeled", "pull_request.edited"),
        *("pull_request.closed", "pull_request.reopened"),
    ]


async def test_what_the_bot_does_is_reported_with_the_bot_as_sender(world: HubApi) -> None:
    await world.hub.open_issue(world.repo, "t", None, "bob")
    await world.call("POST", "~/issues/1/comments", {"body": "working"})
    sender = world.hub.deliveries[-1].payload["sender"]
    assert (sender["login"], sender["type"]) == ("capuchin[bot]", "Bot")


async def test_the_payload_names_the_installation(world: HubApi) -> None:
    await world.hub.open_issue(world.repo, "t", None, "bob")
    assert world.repo.installation is not None
    payload = world.hub.deliveries[0].payload
    assert payload["installation"]["id"] == world.repo.installation.id


async def test_coming_and_going_of_the_app_is_reported(world: HubApi) -> None:
    other = world.hub.add_repo("acme/other", {"a": "b"}, installed=False)
    lone = world.hub.add_repo("solo/lone", {"a": "b"}, installed=False)
    await world.hub.install(other)
    await world.hub.uninstall(other)
    await world.hub.install(lone)
    await world.hub.delete_repo(lone)
    await world.hub.ping()
    assert kinds(world.hub.deliveries) == [
        "installation_repositories.added",
        "installation_repositories.removed",
        "installation.created",
        "repository.deleted",
        "installation.deleted",
        "ping",
    ]
    assert world.hub.find_repo("solo/lone") is None
    assert not lone.git.path.exists()


async def test_what_becomes_of_a_repository_is_reported(world: HubApi) -> None:
    hub, repo, number = world.hub, world.repo, world.repo.id
    other = hub.add_repo("umbrella/other", {"a": "b"})
    await hub.rename_repo(repo, "store")
    await hub.rename_default_branch(repo, "trunk")
    await hub.transfer_repo(repo, "umbrella")
    await hub.suspend(repo, "alice")
    await hub.unsuspend(repo, "alice")
    await hub.archive_repo(repo)
    assert [
        kind for kind in kinds(hub.deliveries) if kind not in ("push", "check_suite.requested")
    ] == [
        "repository.renamed",
        "repository.edited",
        "installation_repositories.removed",
        "installation_repositories.added",
        "repository.transferred",
        "installation.suspend",
        "installation.unsuspend",
        "repository.archived",
    ]
    assert repo.id == number
    assert repo.installation is other.installation


async def test_a_repository_without_the_app_gives_no_result(world: HubApi) -> None:
    hidden = world.hub.add_repo("acme/hidden", {"a": "b"}, installed=False)
    await world.hub.open_issue(hidden, "t", None, "bob")
    assert world.hub.deliveries == []


async def test_the_receivers_answer_is_kept(world: HubApi, received: Received) -> None:
    issue = await world.hub.open_issue(world.repo, "t", None, "bob")
    await world.hub.comment(issue, "c", "bob")
    assert [one.status for one in world.hub.deliveries] == [202, 500]
    assert world.hub.deliveries[0].response == "noted"
    assert len(received) == 2


async def test_a_redelivery_has_the_same_guid_and_bytes(world: HubApi, received: Received) -> None:
    await world.hub.open_issue(world.repo, "t", None, "bob")
    again = await world.hub.redeliver(world.hub.deliveries[0])
    assert again.status == 202
    assert received[0] == received[1]


async def test_nobody_listening_is_noted_and_stops_nothing(world: HubApi) -> None:
    world.hub.webhook_url = "http://127.0.0.1:9/webhook"
    await world.hub.open_issue(world.repo, "t", None, "bob")
    delivery = world.hub.deliveries[0]
    assert delivery.status is None
    assert delivery.error.startswith("ConnectError")


async def test_a_check_run_is_reported(world: HubApi) -> None:
    sha = world.repo.git.list_refs("refs/heads/")["main"]
    asked = {"name": "capuchin", "head_sha": sha, "conclusion": "success"}
    await world.call("POST", "~/check-runs", asked)
    assert kinds(world.hub.deliveries) == ["check_run.created", "check_run.completed"]
