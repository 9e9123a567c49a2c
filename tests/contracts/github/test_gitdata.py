"""Blobs, trees, commits and refs over REST, compared with git's own output."""

from __future__ import annotations

import base64
import hashlib

import pytest

from tests.contracts.github.hub_api import HubApi

ZEROS = "0" * 40


async def commit(world: HubApi, files: dict[str, str], parents: list[str]) -> str:
    entries = [
        {"path": path, "mode": "100644", "type": "blob", "content": text}
        for path, text in files.items()
    ]
    base = {"base_tree": "main"} if parents else {}
    tree = await world.call("POST", "~/git/trees", {"tree": entries, **base})
    asked = {"message": "By REST", "tree": tree.json()["sha"], "parents": parents}
    made = await world.call("POST", "~/git/commits", asked)
    assert made.status_code == 201
    return made.json()["sha"]


async def test_a_blob_has_the_id_that_git_gives_it(world: HubApi) -> None:
    data = "grün\n".encode()
    expected = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    plain = await world.call("POST", "~/git/blobs", {"content": "grün\n"})
    asked = {"content": base64.b64encode(data).decode(), "encoding": "base64"}
    coded = await world.call("POST", "~/git/blobs", asked)
    assert plain.json()["sha"] == coded.json()["sha"] == expected
    shown = (await world.call("GET", f"~/git/blobs/{expected}")).json()
    assert base64.b64decode(shown["content"]) == data
    assert (await world.call("GET", f"~/git/blobs/{ZEROS}")).status_code == 404


async def test_a_branch_is_made_of_blob_tree_commit_and_ref(world: HubApi) -> None:
    head = world.repo.git.list_refs("refs/heads/")["main"]
    sha = await commit(world, {"a/b.py": "x = 1\n"}, [head])
    made = await world.call("POST", "~/git/refs", {"ref": "refs/heads/capuchin/x", "sha": sha})
    assert made.status_code == 201
    assert world.repo.read_file("capuchin/x", "a/b.py") == "x = 1\n"
    assert world.repo.read_file("capuchin/x", "README.md") == "# Shop\n"
    shown = (await world.call("GET", f"~/git/commits/{sha}")).json()
    assert shown["author"]["name"] == "capuchin[bot]"
    ref = (await world.call("GET", "~/git/ref/heads/capuchin/x")).json()
    assert ref["object"]["sha"] == sha
    found = (await world.call("GET", "~/git/matching-refs/heads/capuchin/")).json()
    assert [one["ref"] for one in found] == ["refs/heads/capuchin/x"]


async def test_a_tree_takes_files_away_and_other_trees_in(world: HubApi) -> None:
    main = (await world.call("GET", "~/git/trees/main")).json()
    source = next(line["sha"] for line in main["tree"] if line["path"] == "src")
    entries = [
        {"path": "shop.py", "mode": "100644", "type": "blob", "sha": None},
        {"path": "copy", "mode": "040000", "type": "tree", "sha": source},
    ]
    made = await world.call("POST", "~/git/trees", {"tree": entries, "base_tree": main["sha"]})
    assert [line["path"] for line in made.json()["tree"]] == ["README.md", "copy", "src"]


@pytest.mark.parametrize("path", ["../up", ".git/config", "/abs", "a//b", "a\nb", ""])
async def test_a_path_that_git_refuses_is_422(world: HubApi, path: str) -> None:
    entry = {"path": path, "mode": "100644", "type": "blob", "content": "x"}
    answer = await world.call("POST", "~/git/trees", {"tree": [entry]})
    assert answer.status_code == 422


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("trees", {"tree": [{"path": "a", "mode": "100644", "type": "blob", "sha": ZEROS}]}),
        ("trees", {"tree": [], "base_tree": ZEROS}),
        ("commits", {"message": "m", "tree": ZEROS}),
        ("refs", {"ref": "refs/heads/x", "sha": ZEROS}),
        ("refs", {"ref": "heads/x", "sha": ZEROS}),
        ("refs", {"ref": "refs/heads/a..b", "sha": ZEROS}),
    ],
)
async def test_what_does_not_exist_is_422(world: HubApi, path: str, asked: object) -> None:
    assert (await world.call("POST", f"~/git/{path}", asked)).status_code == 422


async def test_a_commit_without_its_parent_is_422(world: HubApi) -> None:
    tree = world.repo.git.read_commit(world.repo.git.list_refs("refs/heads/")["main"]).tree
    asked = {"message": "m", "tree": tree, "parents": [ZEROS]}
    assert (await world.call("POST", "~/git/commits", asked)).status_code == 422


async def test_an_author_is_kept_with_the_date(world: HubApi) -> None:
    tree = world.repo.git.read_commit(world.repo.git.list_refs("refs/heads/")["main"]).tree
    author = {"name": "A <evil>\nB", "email": "a@b.c", "date": "2024-02-03T04:05:06Z"}
    made = await world.call(
        "POST", "~/git/commits", {"message": "m", "tree": tree, "author": author}
    )
    assert made.json()["author"] == {
        "name": "A evilB",
        "email": "a@b.c",
        "date": "2024-02-03T04:05:06Z",
    }


async def test_a_ref_is_made_once_and_moves_forward_only(world: HubApi) -> None:
    main = world.repo.git.list_refs("refs/heads/")["main"]
    asked = {"ref": "refs/heads/x", "sha": main}
    assert (await world.call("POST", "~/git/refs", asked)).status_code == 201
    again = await world.call("POST", "~/git/refs", asked)
    assert (again.status_code, again.json()["message"]) == (422, "Reference already exists")
    ahead, aside = await commit(world, {"a": "1"}, [main]), await commit(world, {"b": "2"}, [])
    assert (await world.call("PATCH", "~/git/refs/heads/x", {"sha": ahead})).status_code == 200
    refused = await world.call("PATCH", "~/git/refs/heads/x", {"sha": aside})
    assert (refused.status_code, refused.json()["message"]) == (
        422,
        "Update is not a fast forward",
    )
    forced = await world.call("PATCH", "~/git/refs/heads/x", {"sha": aside, "force": True})
    assert forced.status_code == 200


async def test_a_ref_is_deleted_but_not_the_default_branch(world: HubApi) -> None:
    main = world.repo.git.list_refs("refs/heads/")["main"]
    await world.call("POST", "~/git/refs", {"ref": "refs/heads/x", "sha": main})
    assert (await world.call("DELETE", "~/git/refs/heads/x")).status_code == 204
    assert (await world.call("DELETE", "~/git/refs/heads/x")).status_code == 422
    assert (await world.call("DELETE", "~/git/refs/heads/main")).status_code == 422
    assert (await world.call("PATCH", "~/git/refs/heads/x", {"sha": main})).status_code == 422
    assert (await world.call("GET", "~/git/ref/heads/x")).status_code == 404


async def test_an_empty_repository_takes_no_objects(world: HubApi) -> None:
    world.hub.add_repo("acme/empty")
    answer = await world.call("POST", "/repos/acme/empty/git/blobs", {"content": "x"})
    assert (answer.status_code, answer.json()["message"]) == (409, "Git Repository is empty.")
