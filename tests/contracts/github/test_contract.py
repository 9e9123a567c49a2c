"""The contract itself: what it refuses, and that GitHub's own client accepts the hub."""

import operator
import re
import time
from importlib import import_module
from typing import Any

import pytest
from githubkit.cache import MemCacheStrategy

from capuchin_demo.hub.rest_call import match
from tests.contracts.github.contract import rest_contract, webhook_contract
from tests.contracts.github.hub_api import HubApi
from tests.contracts.github.slim_documents import OPERATIONS as DOCUMENTED
from tests.support.github.rest_router import OPERATIONS

SAMPLES = {"installation_id": "1", "basehead": "a...b", "ref": "heads/main"}


def concrete(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: SAMPLES.get(found[1], "1"), path)


@pytest.mark.parametrize(
    ("method", "path"),
    [(method, path) for path, methods in DOCUMENTED.items() for method in methods.split()],
)
def test_the_hub_has_every_operation_of_the_slimmed_document(method: str, path: str) -> None:
    found = match(OPERATIONS, method.upper(), concrete(path))
    assert found is not None
    assert rest_contract().operation(method, concrete(path)) is not None


def test_the_document_has_every_operation_of_the_hub() -> None:
    samples = {"of": "o", "owner": "o", "repo": "r", "ref": "heads/main", "basehead": "a...b"}
    for operation in OPERATIONS:
        path = re.sub(
            r"\(\?P<(\w+)>[^)]*\)", lambda found: samples.get(found[1], "1"), operation.path.pattern
        ).replace("\\", "")
        assert rest_contract().operation(operation.method, path.removesuffix("/") or path) or (
            rest_contract().operation(operation.method, f"{path.rstrip('/')}/")
        ), path


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "complaint"),
    [
        ("POST", "/repos/o/r/issues", [], b"{}", "title"),
        ("POST", "/repos/o/r/issues", [], b'{"title": ["x"]}', "title"),
        ("POST", "/repos/o/r/issues/1/comments", [], b'{"body": "x", "bdy": 1}', "bdy"),
        ("POST", "/repos/o/r/issues/1/comments", [], b"", "body is missing"),
        ("GET", "/repos/o/r/issues", [("state", "bogus")], b"", "not one of"),
        ("GET", "/repos/o/r/issues", [("per_page", "x")], b"", "no integer"),
        ("GET", "/repos/o/r/issues", [("stat", "open")], b"", "stat is unknown"),
        ("GET", "/repos/o/r/issues", [], b'{"a": 1}', "takes no body"),
        ("GET", "/repos/o/r/nothing", [], b"", "no such operation"),
    ],
)
def test_a_request_that_github_would_not_take_is_a_problem(
    method: str, path: str, query: list[tuple[str, str]], body: bytes, complaint: str
) -> None:
    assert complaint in " ".join(rest_contract().request(method, path, query, body))


@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        (200, b"{}", "required"),
        (418, b"{}", "not documented"),
        (401, b'{"oops": 1}', "no error document"),
    ],
)
def test_an_answer_that_github_would_not_give_is_a_problem(
    status: int, body: bytes, complaint: str
) -> None:
    problems = rest_contract().response(
        "GET", "/repos/o/r/issues/1", status, "application/json", body
    )
    assert complaint in " ".join(problems)


def test_paths_with_slashes_find_their_operation() -> None:
    contract = rest_contract()
    assert contract.operation("GET", "/repos/o/r/contents/a/b/c.py") == "repos/get-content"
    assert contract.operation("PATCH", "/repos/o/r/git/refs/heads/a/b") == "git/update-ref"
    assert contract.operation("GET", "/repos/o/r/branches/a/b") == "repos/get-branch"


def test_a_payload_that_github_would_not_send_is_a_problem() -> None:
    assert webhook_contract().problems("issues", {"action": "labeled"})
    assert webhook_contract().problems("nonsense", {}) == ["no such webhook"]


githubkit: Any = import_module("githubkit")
"""Untyped: for these tests alone, pyright would read thousands of modules of its models."""


def client(world: HubApi) -> Any:
    assert world.repo.installation is not None
    app = world.hub.app
    return githubkit.GitHub(
        githubkit.AppInstallationAuthStrategy(
            app.app_id, app.private_key_pem, world.repo.installation.id
        ),
        base_url=f"{world.hub.url}/api/v3",
        http_cache=False,
        auto_retry=False,
        cache_strategy=MemCacheStrategy(),
    )


async def test_an_issue_is_commented_on_and_labelled(world: HubApi) -> None:
    issue = await world.hub.open_issue(world.repo, "t", "b", "bob", labels=["a b"])
    async with client(world) as github:
        shown = await github.rest.issues.async_get("acme", "shop", issue.number)
        assert shown.parsed_data.title == "t"
        made = await github.rest.issues.async_create_comment("acme", "shop", 1, body="hello")
        assert made.parsed_data.body == "hello"
        gone = await github.rest.issues.async_remove_label("acme", "shop", 1, "a%20b")
        assert gone.json() == []
        await github.rest.reactions.async_create_for_issue("acme", "shop", 1, content="eyes")
    assert [comment.body for comment in issue.comments] == ["hello"]


async def test_a_pull_request_is_opened_and_checked(world: HubApi) -> None:
    sha = await world.hub.commit(world.repo, "fix", {"a.py": "1\n"}, "Add", "alice")
    async with client(world) as github:
        made = await github.rest.pulls.async_create(
            "acme", "shop", title="Fix", head="fix", base="main", draft=True
        )
        assert made.parsed_data.head.sha == sha
        run = await github.rest.checks.async_create(
            "acme", "shop", data={"name": "c", "head_sha": sha, "status": "in_progress"}
        )
        assert run.parsed_data.status == "in_progress"
        role = await github.rest.repos.async_get_collaborator_permission_level(
            "acme", "shop", "alice"
        )
        assert role.parsed_data.permission == "write"


async def test_pages_are_followed(world: HubApi) -> None:
    for number in range(3):
        await world.hub.open_issue(world.repo, f"issue {number}", None, "bob")
    async with client(world) as github:
        pages = github.rest.paginate(
            github.rest.issues.async_list_for_repo,
            map_func=operator.methodcaller("json"),
            owner="acme",
            repo="shop",
            per_page=2,
        )
        numbers = [issue["number"] async for issue in pages]
    assert numbers == [3, 2, 1]


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
