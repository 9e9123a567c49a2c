"""Pull requests, reviews and check runs over REST."""

from typing import Any

import pytest

from capuchin_demo.hub.check_actions import report_status
from tests.contracts.github.hub_api import HubApi

FIXED = "def total(a, b):\n    return a + b\n"


async def opened(world: HubApi, **more: Any) -> dict[str, Any]:
    """Create a branch `fix` with one commit and its pull request."""
    await world.hub.commit(world.repo, "fix", {"shop.py": FIXED}, "Fix total()", "alice")
    asked = {"title": "Fix", "head": "fix", "base": "main", "body": "Fixes #1", **more}
    answer = await world.call("POST", "~/pulls", asked)
    assert answer.status_code == 201
    return answer.json()


async def test_a_draft_is_opened_found_shown_and_changed(world: HubApi) -> None:
    made = await opened(world, draft=True, maintainer_can_modify=False)
    assert (made["draft"], made["commits"], made["additions"], made["mergeable"]) == (
        True,
        1,
        1,
        True,
    )
    found = (await world.call("GET", "~/pulls", head="acme:fix", base="main")).json()
    assert [pull["number"] for pull in found] == [made["number"]]
    assert (await world.call("GET", "~/pulls", head="acme:other")).json() == []
    path = f"~/pulls/{made['number']}"
    changed = await world.call("PATCH", path, {"title": "New", "body": "b", "state": "closed"})
    assert (changed.json()["title"], changed.json()["state"]) == ("New", "closed")
    assert (await world.call("GET", "~/pulls")).json() == []
    assert (await world.call("GET", path)).json()["head"]["ref"] == "fix"


async def test_a_second_pull_request_for_a_branch_is_422(world: HubApi) -> None:
    await opened(world)
    again = await world.call("POST", "~/pulls", {"title": "x", "head": "fix", "base": "main"})
    assert again.status_code == 422
    message = again.json()["errors"][0]["message"]
    assert message == "A pull request already exists for acme:fix."


@pytest.mark.parametrize(
    ("head", "base", "complaint"),
    [
        ("nothing", "main", "head"),
        ("main", "nothing", "base"),
        ("stranger:main", "main", "head"),
        ("same", "main", "No commits between main and same"),
    ],
)
async def test_a_pull_request_from_nothing_is_422(
    world: HubApi, head: str, base: str, complaint: str
) -> None:
    git = world.repo.git
    git.set_ref("refs/heads/same", git.list_refs("refs/heads/")["main"])
    answer = await world.call("POST", "~/pulls", {"title": "x", "head": head, "base": base})
    assert answer.status_code == 422
    assert complaint in answer.text


async def test_its_files_and_commits_are_git_s(world: HubApi) -> None:
    path = f"~/pulls/{(await opened(world))['number']}"
    files = (await world.call("GET", f"{path}/files")).json()
    assert files[0]["patch"].endswith("-    return a - b\n+    return a + b")
    commits = (await world.call("GET", f"{path}/commits")).json()
    assert [one["commit"]["message"] for one in commits] == ["Fix total()"]


async def test_it_is_an_issue_too_but_an_issue_is_no_pull_request(world: HubApi) -> None:
    await world.hub.open_issue(world.repo, "bug", None, "bob")
    made = await opened(world)
    shown = (await world.call("GET", f"~/issues/{made['number']}")).json()
    assert shown["pull_request"]["html_url"] == made["html_url"]
    await world.call("POST", f"~/issues/{made['number']}/labels", {"labels": ["bug"]})
    await world.call("POST", f"~/issues/{made['number']}/comments", {"body": "note"})
    assert (await world.call("GET", "~/pulls/1")).status_code == 404


async def test_a_push_to_its_branch_is_seen_at_once(world: HubApi) -> None:
    made = await opened(world)
    sha = await world.hub.commit(world.repo, "fix", {"new.py": "n\n"}, "More", "alice")
    shown = (await world.call("GET", f"~/pulls/{made['number']}")).json()
    assert (shown["head"]["sha"], shown["commits"]) == (sha, 2)
    assert world.hub.deliveries[-1].action == "synchronize"


async def test_it_closes_when_its_branch_goes(world: HubApi) -> None:
    made = await opened(world)
    await world.call("DELETE", "~/git/refs/heads/fix")
    shown = (await world.call("GET", f"~/pulls/{made['number']}")).json()
    assert (shown["state"], shown["merged"], shown["commits"]) == ("closed", False, 1)


async def test_a_conflict_is_not_mergeable(world: HubApi) -> None:
    made = await opened(world)
    await world.hub.commit(world.repo, "main", {"shop.py": "other\n"}, "Other", "alice")
    shown = (await world.call("GET", f"~/pulls/{made['number']}")).json()
    assert (shown["mergeable"], shown["mergeable_state"]) == (False, "dirty")


async def test_a_merge_closes_the_issue_that_it_fixes(world: HubApi) -> None:
    issue = await world.hub.open_issue(world.repo, "bug", None, "bob")
    made = await opened(world)
    pull = world.repo.pulls[0]
    sha = await world.hub.merge(pull, "alice")
    shown = (await world.call("GET", f"~/pulls/{made['number']}")).json()
    assert (shown["merged"], shown["merge_commit_sha"]) == (True, sha)
    assert issue.state == "closed"
    assert world.repo.read_file("main", "shop.py") == FIXED


async def test_reviewers_are_collaborators_but_not_the_author(world: HubApi) -> None:
    path = f"~/pulls/{(await opened(world))['number']}/requested_reviewers"
    asked = await world.call("POST", path, {"reviewers": ["alice"]})
    assert asked.status_code == 201
    assert [user["login"] for user in asked.json()["requested_reviewers"]] == ["alice"]
    for login in ("carol", "nobody", "capuchin[bot]"):
        refused = await world.call("POST", path, {"reviewers": [login]})
        assert refused.status_code == 422


async def test_a_review_comments_on_lines_that_the_diff_shows(world: HubApi) -> None:
    path = f"~/pulls/{(await opened(world))['number']}"
    comment = {"path": "shop.py", "line": 2, "side": "RIGHT", "body": "here"}
    asked: dict[str, Any] = {"event": "COMMENT", "body": "look", "comments": [comment]}
    made = await world.call("POST", f"{path}/reviews", asked)
    assert made.json()["state"] == "COMMENTED"
    assert len((await world.call("GET", f"{path}/reviews")).json()) == 1
    listed = (await world.call("GET", f"{path}/comments")).json()
    assert [(one["path"], one["line"], one["body"]) for one in listed] == [("shop.py", 2, "here")]
    for wrong in ({"line": 99}, {"path": "nothing.py"}):
        bad = {**asked, "comments": [{**comment, **wrong}]}
        assert (await world.call("POST", f"{path}/reviews", bad)).status_code == 422


async def test_the_author_does_not_approve_and_a_comment_is_not_blank(world: HubApi) -> None:
    path = f"~/pulls/{(await opened(world))['number']}/reviews"
    approve = await world.call("POST", path, {"event": "APPROVE"})
    blank = await world.call("POST", path, {"event": "COMMENT"})
    assert (approve.status_code, blank.status_code) == (422, 422)
    alice = world.hub.create_personal_token("alice")
    hers = await world.call("POST", path, {"event": "APPROVE"}, token=alice)
    assert hers.json()["state"] == "APPROVED"
    pending = await world.call("POST", path, {"body": "later"})
    assert pending.json()["state"] == "PENDING"


async def test_a_check_run_goes_from_queued_to_completed(world: HubApi) -> None:
    sha = world.repo.git.list_refs("refs/heads/")["main"]
    made = await world.call("POST", "~/check-runs", {"name": "capuchin", "head_sha": sha})
    assert (made.status_code, made.json()["status"]) == (201, "queued")
    path = f"~/check-runs/{made.json()['id']}"
    output = {"title": "Config", "summary": "bad", "text": "long", "annotations": [
        {"path": "shop.py", "start_line": 1, "end_line": 1, "annotation_level": "failure",
         "message": "m"}]}  # fmt: skip
    asked = {"status": "completed", "conclusion": "failure", "output": output}
    shown = (await world.call("PATCH", path, asked)).json()
    assert (shown["status"], shown["conclusion"]) == ("completed", "failure")
    assert shown["output"]["annotations_count"] == 1
    runs = (await world.call("GET", "~/commits/main/check-runs", check_name="capuchin")).json()
    assert [run["id"] for run in runs["check_runs"]] == [made.json()["id"]]
    suites = (await world.call("GET", "~/commits/main/check-suites")).json()
    assert [suite["conclusion"] for suite in suites["check_suites"]] == ["failure"]


async def test_statuses_are_combined_and_of_each_context_the_latest_counts(world: HubApi) -> None:
    number = (await opened(world))["number"]
    pull = next(pull for pull in world.repo.pulls if pull.number == number)
    path = f"~/commits/{pull.head_sha}/status"
    assert (await world.call("GET", path)).json()["state"] == "pending"
    for state in ("failure", "success"):
        await report_status(world.hub, pull, state, context="ci/tests", description="12 tests")
        found = (await world.call("GET", path)).json()
        assert (found["state"], found["total_count"]) == (state, 1)
    await report_status(world.hub, pull, "pending", context="ci/lint")
    assert (await world.call("GET", path)).json()["state"] == "pending"
    assert world.hub.deliveries[-1].payload["branches"][0]["name"] == "fix"
    assert (await world.call("GET", "~/commits/nothing/status")).status_code == 404


async def test_the_comments_on_lines_of_all_pull_requests_are_listed(world: HubApi) -> None:
    number = (await opened(world))["number"]
    pull = next(pull for pull in world.repo.pulls if pull.number == number)
    for text in ("one", "two"):
        await world.hub.review(pull, "alice", lines=[("shop.py", 2, text)])
    asked = {"sort": "updated", "direction": "desc", "since": "2020-01-01T00:00:00Z"}
    found = (await world.call("GET", "~/pulls/comments", **asked)).json()
    assert [comment["body"] for comment in found] == ["two", "one"]
    assert found[0]["pull_request_url"].endswith(f"/pulls/{number}")
    later = (await world.call("GET", "~/pulls/comments", since="2999-01-01T00:00:00Z")).json()
    assert later == []


async def test_of_each_name_the_latest_run_is_listed(world: HubApi) -> None:
    sha = world.repo.git.list_refs("refs/heads/")["main"]
    asked = {"name": "capuchin", "head_sha": sha, "conclusion": "success"}
    for _ in range(2):
        await world.call("POST", "~/check-runs", asked)
    path = f"~/commits/{sha}/check-runs"
    assert (await world.call("GET", path)).json()["total_count"] == 1
    assert (await world.call("GET", path, filter="all")).json()["total_count"] == 2


RULE_BREAKERS: list[dict[str, Any]] = [
    {"head_sha": "0" * 40},
    {"status": "completed"},
    {"status": "bogus"},
    {"conclusion": "bogus"},
    {"output": {"title": "no summary"}},
    {"output": {"title": "t", "summary": "x" * 65_536}},
    {"output": {"title": "t", "summary": "s", "annotations": [{}] * 51}},
]


@pytest.mark.parametrize("wrong", RULE_BREAKERS)
async def test_a_check_run_against_the_rules_is_422(world: HubApi, wrong: dict[str, Any]) -> None:
    sha = world.repo.git.list_refs("refs/heads/")["main"]
    asked = {"name": "capuchin", "head_sha": sha, **wrong}
    assert (await world.call("POST", "~/check-runs", asked)).status_code == 422
    assert world.repo.check_runs == []


async def test_people_make_no_check_runs(world: HubApi) -> None:
    sha = world.repo.git.list_refs("refs/heads/")["main"]
    alice = world.hub.create_personal_token("alice")
    asked = {"name": "capuchin", "head_sha": sha}
    assert (await world.call("POST", "~/check-runs", asked, token=alice)).status_code == 403
