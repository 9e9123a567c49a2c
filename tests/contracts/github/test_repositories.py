"""Repositories, files, branches, permissions, history and comparisons over REST."""

from __future__ import annotations

import base64

import pytest

from tests.contracts.github.hub_api import FILES, HubApi


async def test_a_repository_shows_its_facts(world: HubApi) -> None:
    shown = (await world.call("GET", "/repos/ACME/Shop")).json()
    assert shown["full_name"] == "acme/shop"
    assert (shown["default_branch"], shown["private"]) == ("main", False)


@pytest.mark.parametrize("path", ["shop.py", "src/deep/x%20y%23%3F.md"])
async def test_a_file_comes_as_base64_or_raw(world: HubApi, path: str) -> None:
    shown = (await world.call("GET", f"~/contents/{path}")).json()
    raw = await world.call("GET", f"~/contents/{path}", accept="application/vnd.github.raw+json")
    assert base64.b64decode(shown["content"]) == raw.content == FILES[shown["path"]].encode()


async def test_a_folder_is_listed(world: HubApi) -> None:
    root = (await world.call("GET", "~/contents/")).json()
    assert [(line["name"], line["type"]) for line in root] == [
        ("README.md", "file"),
        ("shop.py", "file"),
        ("src", "dir"),
    ]
    inner = (await world.call("GET", "~/contents/src/deep")).json()
    assert [line["path"] for line in inner] == ["src/deep/x y#?.md"]


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


async def test_a_file_over_one_megabyte_has_no_inline_content(world: HubApi) -> None:
    await world.hub.commit(world.repo, "main", {"big": "x" * (1024 * 1024 + 1)}, "big", "alice")
    shown = (await world.call("GET", "~/contents/big")).json()
    assert (shown["encoding"], shown["content"]) == ("none", "")


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


async def test_a_commit_shows_its_files_or_its_id(world: HubApi) -> None:
    sha = await world.hub.commit(world.repo, "fix", {"shop.py": "fixed\n"}, "Fix it", "alice")
    shown = (await world.call("GET", "~/commits/fix")).json()
    assert (shown["sha"], shown["files"][0]["filename"]) == (sha, "shop.py")
    bare = await world.call("GET", "~/commits/fix", accept="application/vnd.github.sha")
    assert bare.text == sha
    first = (await world.call("GET", "~/commits/main")).json()
    assert first["stats"]["additions"] == 4
    assert (await world.call("GET", "~/commits/nothing")).status_code == 422


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
    diff = await world.call("GET", "~/compare/main...fix", accept="application/vnd.github.diff")
    assert diff.text.startswith("diff --git")
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
    tree = (await world.call("GET", "/repos/acme/package/git/trees/trunk", recursive="1")).json()
    modes = {line["path"]: line["mode"] for line in tree["tree"]}
    assert modes == {
        ".gitignore": "100644",
        "link": "120000",
        "sub": "040000",
        "sub/tool.sh": "100755",
    }
    link = (await world.call("GET", "/repos/acme/package/contents/link")).json()
    assert (link["type"], link["target"]) == ("symlink", "sub/tool.sh")
    assert repo.list_commits("trunk") == ["Initial commit"]
