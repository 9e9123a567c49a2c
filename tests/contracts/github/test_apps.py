"""Authentication: the App's JWT, installation tokens, their scope and their expiry."""

from __future__ import annotations

import time

import jwt
import pytest

from capuchin_demo.hub.tokens import generate_app
from tests.contracts.github.hub_api import HubApi


async def test_the_app_sees_itself_and_its_installations(world: HubApi) -> None:
    app = await world.call("GET", "/app", token=world.app_jwt())
    assert app.json()["slug"] == "capuchin"
    every = await world.call("GET", "/app/installations", token=world.app_jwt())
    one = await world.call("GET", "~/installation", token=world.app_jwt())
    assert [found["id"] for found in every.json()] == [one.json()["id"]]


@pytest.mark.parametrize(
    ("issuer", "issued", "expires"), [("8", -60, 540), ("7", -900, -300), ("7", -60, 1200)]
)
async def test_a_jwt_that_github_would_refuse_is_401(
    world: HubApi, issuer: str, issued: int, expires: int
) -> None:
    token = world.app_jwt(issuer=issuer, issued=issued, expires=expires)
    assert (await world.call("GET", "/app", token=token)).status_code == 401


async def test_a_jwt_signed_with_another_key_is_401(world: HubApi) -> None:
    key = generate_app().private_key_pem
    now = int(time.time())
    forged = jwt.encode({"iat": now, "exp": now + 300, "iss": "7"}, key, algorithm="RS256")
    assert (await world.call("GET", "/app", token=forged)).status_code == 401


async def test_a_token_lives_one_hour_and_says_so_without_milliseconds(world: HubApi) -> None:
    answer = await world.new_token()
    expires = time.strptime(answer.json()["expires_at"], "%Y-%m-%dT%H:%M:%SZ")
    assert answer.status_code == 201
    assert answer.json()["token"].startswith("ghs_")
    left = time.mktime(expires) - time.mktime(time.gmtime())
    assert 3590 <= left <= 3601


async def test_no_token_and_a_wrong_token_are_401(world: HubApi) -> None:
    assert (await world.call("GET", "~", token="ghs_wrong")).status_code == 401
    bare = await world.http.get(f"{world.hub.url}/api/v3/repos/acme/shop")
    assert bare.status_code == 401


async def test_an_expired_token_is_401_and_a_new_one_works(world: HubApi) -> None:
    world.hub.expire_tokens()
    assert (await world.call("GET", "~")).status_code == 401
    world.token = (await world.new_token()).json()["token"]
    assert (await world.call("GET", "~")).status_code == 200


async def test_a_token_lists_the_repositories_it_can_see(world: HubApi) -> None:
    world.hub.add_repo("acme/other", {"a": "b"})
    world.hub.add_repo("acme/hidden", {"a": "b"}, installed=False)
    seen = (await world.call("GET", "/installation/repositories")).json()
    assert [repo["name"] for repo in seen["repositories"]] == ["shop", "other"]
    assert seen["total_count"] == 2


async def test_a_token_for_one_repository_does_not_see_the_other(world: HubApi) -> None:
    world.hub.add_repo("acme/other", {"a": "b"})
    scoped = (await world.new_token(repositories=["shop"])).json()
    assert [repo["name"] for repo in scoped["repositories"]] == ["shop"]
    assert (await world.call("GET", "~", token=scoped["token"])).status_code == 200
    other = await world.call("GET", "/repos/acme/other", token=scoped["token"])
    assert other.status_code == 404


async def test_a_repository_without_the_app_and_a_missing_one_answer_alike(world: HubApi) -> None:
    world.hub.add_repo("acme/hidden", {"a": "b"}, installed=False)
    hidden = await world.call("GET", "/repos/acme/hidden")
    missing = await world.call("GET", "/repos/acme/nothing")
    assert hidden.status_code == missing.status_code == 404
    assert hidden.json() == missing.json()


async def test_a_token_with_less_permission_is_refused_403(world: HubApi) -> None:
    token = (await world.new_token(permissions={"issues": "read"})).json()["token"]
    assert (await world.call("GET", "~/issues", token=token)).status_code == 200
    refused = await world.call("POST", "~/issues", {"title": "x"}, token=token)
    assert refused.status_code == 403
    assert refused.json()["message"] == "Resource not accessible by integration"
    assert "issues=write" in refused.headers["x-accepted-github-permissions"]


@pytest.mark.parametrize(
    "asked", [{"permissions": {"administration": "write"}}, {"repositories": ["nothing"]}]
)
async def test_asking_for_more_than_was_granted_is_422(
    world: HubApi, asked: dict[str, object]
) -> None:
    assert (await world.new_token(**asked)).status_code == 422


async def test_a_token_dies_with_its_installation(world: HubApi) -> None:
    await world.hub.uninstall(world.repo)
    assert (await world.call("GET", "~")).status_code == 401


async def test_people_use_their_own_tokens_with_their_own_rights(world: HubApi) -> None:
    bob = world.hub.create_personal_token("bob")
    assert (await world.call("GET", "~", token=bob)).status_code == 200
    refused = await world.call("POST", "~/git/blobs", {"content": "x"}, token=bob)
    assert refused.status_code == 403


async def test_accounts_are_found_by_name(world: HubApi) -> None:
    assert (await world.call("GET", "/users/ALICE")).json()["login"] == "alice"
    assert (await world.call("GET", "/users/capuchin%5Bbot%5D")).json()["type"] == "Bot"
    assert (await world.call("GET", "/users/nobody")).status_code == 404
