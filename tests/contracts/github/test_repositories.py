"""Repositories, files, branches, permissions, history and comparisons over REST."""

import base64
import time

import jwt
import pytest

from capuchin_demo.hub.tokens import generate_app
from tests.contracts.github.hub_api import FILES, HubApi


async def test_a_repository_shows_its_facts(world: HubApi) -> None:
    shown = (await world.call("GET", "/repos/ACME/Shop")).json()
    assert shown["full_name"] == "acme/shop"
    assert (shown["default_branch"], shown["private"]) == ("main", False)


@pytest.mark.parametrize("path", ["shop.py", "src/deep/x%20y%23%3F.md"])
async def test_a_file_comes_as_base64(world: HubApi, path: str) -> None:
    shown = (await world.call("GET", f"~/contents/{path}")).json()
    assert base64.b64decode(shown["content"]) == FILES[shown["path"]].encode()


async def test_a_folder_is_listed(world: HubApi) -> None:
    for folder, name, kind in (("src", "deep", "dir"), ("src/deep", "x y#?.md", "file")):
        (line,) = (await world.call("GET", f"~/contents/{folder}")).json()
        assert (line["path"], line["type"]) == (f"{folder}/{name}", kind)


@pytest.mark.parametrize(
    "path",
    ["nothing.py", "shop.py/inside", "..%2F..%2Fconfig", ".git/config", "src/../shop.py%00", "-x"],
)
async def test_a_path_that_is_not_in_the_tree_is_404(world: HubApi, path: str) -> None:
    address = f"{world.hub.url}/api/v3/repos/acme/shop/contents/{path}"
    answer = await world.http.get(address, headers={"authorization": f"Bearer {world.token}"})
    assert answer.status_code == 404


@pytest.mark.parametrize("rev", ["nothing", "main~1", "@{u}", "--all", "HEAD:shop.py", "a b", ""])
async def test_only_a_name_is_a_ref_never_an_expression(world: HubApi, rev: str) -> None:
    answer = await world.call("GET", "~/contents/shop.py", ref=rev)
    assert answer.status_code == (404 if rev else 200)


async def test_branches_are_listed_and_shown(world: HubApi) -> None:
    await world.hub.commit(world.repo, "fix/deep", {"a": "b"}, "Add a", "alice")
    listed = (await world.call("GET", "~/branches")).json()
    assert [branch["name"] for branch in listed] == ["fix/deep", "main"]
    shown = (await world.call("GET", "~/branches/fix/deep")).json()
    assert shown["commit"]["commit"]["message"] == "Add a"
    assert (await world.call("GET", "~/branches/nothing")).status_code == 404


@pytest.mark.parametrize(
    ("role", "permission"),
    [
        ("admin", "admin"),
        ("maintain", "write"),
        ("write", "write"),
        ("triage", "read"),
        ("read", "read"),
        ("none", "none"),
    ],
)
async def test_a_permission_has_the_old_word_and_the_role(
    world: HubApi, role: str, permission: str
) -> None:
    world.hub.add_user("dave")
    world.repo.grant("dave", role)
    shown = (await world.call("GET", "~/collaborators/dave/permission")).json()
    assert (shown["permission"], shown["role_name"]) == (permission, role)


async def test_a_permission_of_nobody_and_of_a_bot_is_404(world: HubApi) -> None:
    for login in ("nobody", "capuchin%5Bbot%5D"):
        path = f"~/collaborators/{login}/permission"
        assert (await world.call("GET", path)).status_code == 404


async def test_the_history_is_listed_whole_by_path_and_by_branch(world: HubApi) -> None:
    await world.hub.commit(world.repo, "fix", {"shop.py": "fixed\n"}, "Fix it", "alice")
    listed = (await world.call("GET", "~/commits", sha="fix", path="shop.py")).json()
    assert [one["commit"]["message"] for one in listed] == ["Fix it", "Initial commit"]
    assert len((await world.call("GET", "~/commits", sha="fix", path="README.md")).json()) == 1
    assert (await world.call("GET", "~/commits", sha="nothing")).status_code == 404
    newest = listed[0]["commit"]["committer"]["date"]
    dated = (await world.call("GET", "~/commits", sha="fix", since=newest)).json()
    assert dated[0]["commit"]["message"] == "Fix it"
    assert (await world.call("GET", "~/commits", since="2999-01-01T00:00:00Z")).json() == []


async def test_two_branches_are_compared(world: HubApi) -> None:
    await world.hub.commit(world.repo, "fix", {"shop.py": None, "new.py": "n\n"}, "Fix", "alice")
    ahead = (await world.call("GET", "~/compare/main...fix")).json()
    assert (ahead["status"], ahead["ahead_by"], ahead["behind_by"]) == ("ahead", 1, 0)
    assert {one["filename"]: one["status"] for one in ahead["files"]} == {
        "new.py": "added",
        "shop.py": "removed",
    }
    assert (await world.call("GET", "~/compare/fix...main")).json()["status"] == "behind"
    assert (await world.call("GET", "~/compare/fix...fix")).json()["status"] == "identical"
    assert (await world.call("GET", "~/compare/main...nothing")).status_code == 404


async def test_an_empty_repository_says_so(world: HubApi) -> None:
    world.hub.add_repo("acme/empty")
    commits = await world.call("GET", "/repos/acme/empty/commits")
    contents = await world.call("GET", "/repos/acme/empty/contents/a")
    assert (commits.status_code, contents.status_code) == (409, 404)
    assert commits.json()["message"] == "Git Repository is empty."


async def test_a_repository_made_from_a_folder_holds_it_all(world: HubApi) -> None:
    folder = world.hub.root / "package"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "tool.sh").write_text("#!/bin/sh\n")
    (folder / "sub" / "tool.sh").chmod(0o755)
    (folder / ".gitignore").write_text("*.sh\n")
    (folder / "link").symlink_to("sub/tool.sh")
    repo = world.hub.add_repo("acme/package", folder=folder, default_branch="trunk")
    assert {line.path: line.mode for line in repo.git.list_entries("trunk", recursive=True)} == {
        ".gitignore": "100644",
        "link": "120000",
        "sub": "040000",
        "sub/tool.sh": "100755",
    }
    assert repo.list_commits("trunk") == ["Initial commit"]


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


async def test_a_suspended_installation_has_no_tokens(world: HubApi) -> None:
    await world.hub.suspend(world.repo, "alice")
    assert (await world.call("GET", "~")).status_code == 401
    assert (await world.new_token()).status_code == 403
    await world.hub.unsuspend(world.repo, "alice")
    assert (await world.new_token()).status_code == 201


async def test_an_old_name_redirects_to_the_id_until_it_is_taken_again(world: HubApi) -> None:
    hub, repo = world.hub, world.repo
    await hub.rename_repo(repo, "store")
    read, written = (
        await world.call("GET", "~"),
        await world.call("POST", "~/issues", {"title": "x"}),
    )
    assert (read.status_code, written.status_code) == (301, 307)
    assert read.headers["location"].endswith(f"/repositories/{repo.id}")
    moved = f"/repositories/{repo.id}/issues"
    assert (await world.call("POST", moved, {"title": "x"})).status_code == 201
    hub.add_repo("acme/shop", {"a": "b"})
    assert (await world.call("GET", "~")).json()["id"] != repo.id


async def test_an_archived_repository_is_read_only(world: HubApi) -> None:
    await world.hub.archive_repo(world.repo)
    assert (await world.call("GET", "~")).json()["archived"] is True
    assert (await world.call("POST", "~/issues", {"title": "x"})).status_code == 403


async def test_each_push_queues_a_suite_unless_that_is_switched_off(world: HubApi) -> None:
    hub, repo = world.hub, world.repo
    first = await hub.commit(repo, "main", {"a.py": "1\n"}, "Add", "alice")
    assert [suite.head_sha for suite in repo.suites] == [first]
    own = {"app_id": hub.app.app_id, "setting": False}
    asked = {"auto_trigger_checks": [own]}
    assert (await world.call("PATCH", "~/check-suites/preferences", asked)).status_code == 200
    second = await hub.commit(repo, "main", {"a.py": "2\n"}, "Change", "alice")
    assert len(repo.suites) == 1
    run = {"name": "capuchin", "head_sha": second, "conclusion": "success"}
    assert (await world.call("POST", "~/check-runs", run)).status_code == 422
    for status in (201, 200):
        made = await world.call("POST", "~/check-suites", {"head_sha": second})
        assert made.status_code == status
    assert (await world.call("POST", "~/check-runs", run)).status_code == 201


async def test_people_use_their_own_tokens_with_their_own_rights(world: HubApi) -> None:
    bob = world.hub.create_personal_token("bob")
    assert (await world.call("GET", "~", token=bob)).status_code == 200
    refused = await world.call("POST", "~/git/blobs", {"content": "x"}, token=bob)
    assert refused.status_code == 403


async def test_accounts_are_found_by_name(world: HubApi) -> None:
    assert (await world.call("GET", "/users/ALICE")).json()["login"] == "alice"
    assert (await world.call("GET", "/users/capuchin%5Bbot%5D")).json()["type"] == "Bot"
    assert (await world.call("GET", "/users/nobody")).status_code == 404
