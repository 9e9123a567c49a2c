"""Issues and what hangs on them, and blobs, trees, commits and refs, over REST."""

import base64
import hashlib

import pytest

from tests.contracts.github.hub_api import HubApi


async def test_an_issue_is_opened_shown_changed_and_closed(world: HubApi) -> None:
    made = (
        await world.call("POST", "~/issues", {"title": "total() subtracts", "body": "b"})
    ).json()
    assert made["user"]["login"] == "capuchin[bot]"
    change = {"title": "t", "state": "closed", "state_reason": "not_planned"}
    changed = (await world.call("PATCH", f"~/issues/{made['number']}", change)).json()
    shown = (await world.call("GET", f"~/issues/{made['number']}")).json()
    assert (changed["title"], shown["state"], shown["state_reason"]) == (
        "t",
        "closed",
        "not_planned",
    )
    reopened = await world.call("PATCH", f"~/issues/{made['number']}", {"state": "open"})
    assert reopened.json()["state"] == "open"


async def test_issues_are_listed_by_state_and_label_newest_first(world: HubApi) -> None:
    for number in range(3):
        await world.hub.open_issue(world.repo, f"issue {number}", None, "bob")
    await world.hub.add_label(world.repo.issues[3], "capuchin", "alice")
    await world.hub.close_issue(world.repo.issues[1], "alice")
    listed = (await world.call("GET", "~/issues")).json()
    assert [issue["number"] for issue in listed] == [3, 2]
    labelled = (await world.call("GET", "~/issues", labels="capuchin", state="all")).json()
    assert [issue["number"] for issue in labelled] == [3]


async def test_pages_are_linked(world: HubApi) -> None:
    for number in range(5):
        await world.hub.open_issue(world.repo, f"issue {number}", None, "bob")
    first = await world.call("GET", "~/issues", per_page=2)
    assert set(first.links) == {"next", "last"}
    headers = {"authorization": f"Bearer {world.token}"}
    second = await world.http.get(first.links["next"]["url"], headers=headers)
    assert [issue["number"] for issue in second.json()] == [3, 2]
    last = await world.http.get(second.links["last"]["url"], headers=headers)
    assert [issue["number"] for issue in last.json()] == [1]
    assert set(last.links) == {"prev", "first"}


async def test_a_deleted_issue_is_410_and_an_unknown_one_404(world: HubApi) -> None:
    issue = await world.hub.open_issue(world.repo, "short-lived", None, "bob")
    await world.hub.delete_issue(issue, "alice")
    assert (await world.call("GET", "~/issues/1")).status_code == 410
    assert (await world.call("GET", "~/issues/2")).status_code == 404
    assert (await world.call("GET", "~/issues/abc")).status_code == 404


@pytest.mark.parametrize("title", ["", "   ", "x" * 257])
async def test_a_bad_title_is_422(world: HubApi, title: str) -> None:
    answer = await world.call("POST", "~/issues", {"title": title})
    assert answer.status_code == 422
    assert answer.json()["message"] == "Validation Failed"


async def test_a_body_that_is_no_json_is_400(world: HubApi) -> None:
    address = f"{world.hub.url}/api/v3/repos/acme/shop/issues"
    headers = {"authorization": f"Bearer {world.token}"}
    for raw in (b"{", b"[]", b"\xff"):
        answer = await world.http.post(address, content=raw, headers=headers)
        assert (answer.status_code, "JSON" in answer.json()["message"]) == (400, True)


async def test_a_comment_is_written_edited_and_read(world: HubApi) -> None:
    await world.hub.open_issue(world.repo, "t", None, "bob")
    made = (await world.call("POST", "~/issues/1/comments", {"body": "first"})).json()
    await world.call("PATCH", f"~/issues/comments/{made['id']}", {"body": "second"})
    listed = (await world.call("GET", "~/issues/1/comments")).json()
    assert [comment["body"] for comment in listed] == ["second"]


@pytest.mark.parametrize("body", ["", "  ", "x" * 65_537])
async def test_a_blank_or_overlong_comment_is_422(world: HubApi, body: str) -> None:
    await world.hub.open_issue(world.repo, "t", None, "bob")
    answer = await world.call("POST", "~/issues/1/comments", {"body": body})
    assert answer.status_code == 422


async def test_labels_come_and_go_and_a_second_removal_is_404(world: HubApi) -> None:
    issue = await world.hub.open_issue(world.repo, "t", None, "bob")
    added = await world.call("POST", "~/issues/1/labels", {"labels": ["a/b c", "bug"]})
    assert [label["name"] for label in added.json()] == ["a/b c", "bug"]
    removed = await world.call("DELETE", "~/issues/1/labels/a%2Fb%20c")
    assert [label["name"] for label in removed.json()] == ["bug"]
    again = await world.call("DELETE", "~/issues/1/labels/a%2Fb%20c")
    assert (again.status_code, again.json()["message"]) == (404, "Label does not exist")
    assert issue.labels == ["bug"]


async def test_a_repositorys_label_is_made_once(world: HubApi) -> None:
    asked = {"name": "capuchin", "color": "00ff00", "description": "fix it"}
    assert (await world.call("POST", "~/labels", asked)).status_code == 201
    again = await world.call("POST", "~/labels", asked)
    assert (again.status_code, again.json()["errors"][0]["code"]) == (422, "already_exists")
    assert (await world.call("GET", "~/labels/CAPUCHIN")).json()["color"] == "00ff00"
    assert (await world.call("GET", "~/labels/nothing")).status_code == 404
    bad = await world.call("POST", "~/labels", {"name": "x", "color": "green"})
    assert bad.status_code == 422


async def test_a_reaction_is_given_once_and_taken_back(world: HubApi) -> None:
    issue = await world.hub.open_issue(world.repo, "t", None, "bob")
    comment = await world.hub.comment(issue, "c", "bob")
    for path in ("~/issues/1/reactions", f"~/issues/comments/{comment.id}/reactions"):
        first = await world.call("POST", path, {"content": "eyes"})
        again = await world.call("POST", path, {"content": "eyes"})
        assert (first.status_code, again.status_code) == (201, 200)
        assert len((await world.call("GET", path, content="eyes")).json()) == 1
        assert (await world.call("GET", path, content="rocket")).json() == []
        gone = f"{path}/{first.json()['id']}"
        assert (await world.call("DELETE", gone)).status_code == 204
        assert (await world.call("DELETE", gone)).status_code == 404
    bad = await world.call("POST", "~/issues/1/reactions", {"content": "banana"})
    assert bad.status_code == 422


async def test_an_issue_remembers_who_labelled_it(world: HubApi) -> None:
    issue = await world.hub.open_issue(world.repo, "x", None, "bob")
    await world.hub.add_label(issue, "capuchin", "alice")
    await world.hub.remove_label(issue, "capuchin", "bob")
    listed = (await world.call("GET", f"~/issues/{issue.number}/events")).json()
    assert [(e["event"], e["label"]["name"], e["actor"]["login"]) for e in listed] == [
        ("labeled", "capuchin", "alice"),
        ("unlabeled", "capuchin", "bob"),
    ]


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
    source = world.repo.git.find_entry("main", "src")
    assert source is not None
    entries = [
        {"path": "shop.py", "mode": "100644", "type": "blob", "sha": None},
        {"path": "copy", "mode": "040000", "type": "tree", "sha": source.sha},
    ]
    made = await world.call("POST", "~/git/trees", {"tree": entries, "base_tree": "main"})
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


async def test_a_ref_is_made_once_and_moves_forward_only(world: HubApi) -> None:
    main = world.repo.git.list_refs("refs/heads/")["main"]
    asked = {"ref": "refs/heads/x", "sha": main}
    assert (await world.call("POST", "~/git/refs", asked)).status_code == 201
    again = await world.call("POST", "~/git/refs", asked)
    assert (again.status_code, again.json()["message"]) == (422, "Reference already exists")
    ahead, aside = await commit(world, {"a": "1"}, [main]), await commit(world, {"b": "2"}, [])
    assert (await world.call("PATCH", "~/git/refs/heads/x", {"sha": ahead})).status_code == 200
    refused = await world.call("PATCH", "~/git/refs/heads/x", {"sha": aside})
    assert (refused.status_code, refused.json()["message"]) == (422, "Update is not a fast forward")
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
