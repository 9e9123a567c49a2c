"""The client's writes have their effect once, in spite of failures."""

from datetime import timedelta

import pytest

from bot.data.run import Login, now
from bot.errors import Forbidden, GitHubUnavailable, Unprocessable
from bot.github.checks import Annotation, Check
from bot.github.repository import Repository
from capuchin_demo.hub.state import Issue, Repo
from pipeline.data.types import CommitSha
from tests.support.github.hub import LocalHub

MARKER = "<!-- capuchin:status run=r1 -->"


@pytest.fixture
async def issue(hub: LocalHub, shop: Repo) -> Issue:
    return await hub.open_issue(shop, "total() subtracts", author="bob")


async def test_a_comment_before_the_given_time_does_not_count(
    repo: Repository, issue: Issue
) -> None:
    await repo.issues.comment_once(issue.number, MARKER, MARKER)
    later = now() + timedelta(hours=1)
    await repo.issues.comment_once(issue.number, MARKER, MARKER, since=later)
    assert len(issue.comments) == 2


async def test_a_hub_that_stays_down_is_unavailable_and_made_nothing(
    repo: Repository, hub: LocalHub, issue: Issue
) -> None:
    hub.faults.fail_next("POST", "/repos/*/comments", status=503, times=10)
    with pytest.raises(GitHubUnavailable):
        await repo.issues.comment_once(issue.number, MARKER, MARKER)
    assert issue.comments == []


async def test_a_comment_is_edited_in_place(repo: Repository, hub: LocalHub, issue: Issue) -> None:
    made = await repo.issues.comment_once(issue.number, MARKER, MARKER)
    assert await repo.issues.edit_comment(made.id, "new")
    assert [comment.body for comment in issue.comments] == ["new"]
    await hub.delete_comment(issue.comments[0], "alice")
    assert not await repo.issues.edit_comment(made.id, "newer")


async def test_a_label_is_taken_off_and_may_be_missing(
    repo: Repository, hub: LocalHub, issue: Issue
) -> None:
    await hub.add_label(issue, "help wanted", "alice")
    await repo.issues.remove_label(issue.number, "help wanted")
    await repo.issues.remove_label(issue.number, "help wanted")
    assert issue.labels == []


@pytest.mark.parametrize("label", ["..", ".", "", "a/b", "x?y#z", "%2e%2e"])
async def test_a_hostile_label_reaches_nothing_else(
    repo: Repository, hub: LocalHub, shop: Repo, issue: Issue, label: str
) -> None:
    await repo.issues.remove_label(issue.number, label)
    assert shop.issues[issue.number] is issue
    assert hub.find_repo("acme/shop") is shop


async def opened(repo: Repository, marker: str = "<!-- capuchin:run=r1 -->") -> int:
    pull = await repo.pulls.open_once(
        branch="capuchin/x", base="main", title="Fix", body=f"body {marker}", marker=marker
    )
    return pull.number


@pytest.fixture
async def branch(hub: LocalHub, shop: Repo) -> str:
    return await hub.commit(shop, "capuchin/x", {"x": "y"}, "x", "alice")


@pytest.mark.usefixtures("branch")
async def test_a_closed_pull_request_of_this_run_is_not_opened_again(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    number = await opened(repo)
    await hub.close_issue(shop.issues[number], "alice")
    assert await opened(repo) == number


@pytest.mark.usefixtures("branch")
async def test_a_closed_pull_request_of_an_earlier_run_is_not_ours(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    number = await opened(repo, "<!-- capuchin:run=r0 -->")
    await hub.close_issue(shop.issues[number], "alice")
    assert await opened(repo) != number


@pytest.mark.usefixtures("branch")
async def test_where_drafts_are_refused_an_ordinary_one_is_opened(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    hub.faults.fail_next("POST", "/repos/*/pulls", status=422)
    await opened(repo)
    assert [pull.draft for pull in shop.pulls] == [False]


async def test_a_pull_request_without_its_branch_is_unprocessable(repo: Repository) -> None:
    with pytest.raises(Unprocessable):
        await opened(repo)


@pytest.mark.usefixtures("branch")
async def test_a_review_is_asked_for_where_github_lets_us(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    hub.add_user("alice")
    number = await opened(repo)
    assert await repo.pulls.request_review(number, Login("alice"))
    assert [user.login for user in shop.pulls[0].requested_reviewers] == ["alice"]
    assert not await repo.pulls.request_review(number, Login("stranger"))


@pytest.mark.parametrize("after_effect", [True, False])
async def test_a_check_run_is_made_once(
    repo: Repository, hub: LocalHub, shop: Repo, branch: str, after_effect: bool
) -> None:
    hub.faults.fail_next("POST", "/repos/*/check-runs", status=502, after_effect=after_effect)
    for _ in range(2):
        await repo.checks.complete(
            Check(
                name="Capuchin: reproduction test",
                head_sha=CommitSha(branch),
                external_id="r1",
                conclusion="success",
                title="Fails before, passes after",
                summary="s" * 100_000,
                text="logs",
            )
        )
    assert [(run.conclusion, run.external_id) for run in shop.check_runs] == [("success", "r1")]


@pytest.mark.parametrize("lost", [None, "POST", "PATCH"])
async def test_annotations_go_in_batches_and_a_try_that_broke_off_is_completed(
    repo: Repository, hub: LocalHub, shop: Repo, branch: str, lost: str | None
) -> None:
    notes = [Annotation("shop.py", line, f"note {line}", column=2) for line in range(1, 121)]
    check = Check("c", CommitSha(branch), "r1", "t", "s", "failure", annotations=notes)
    if lost:
        path = "/repos/*/check-runs" + ("/*" if lost == "PATCH" else "")
        hub.faults.fail_next(lost, path, status=403, message="no", after_effect=lost == "POST")
        with pytest.raises(Forbidden):
            await repo.checks.complete(check)
    made = await repo.checks.complete(check)
    assert made.annotations == 120
    (run,) = shop.check_runs
    assert [note["message"] for note in run.annotations] == [f"note {n}" for n in range(1, 121)]


@pytest.mark.usefixtures("branch")
async def test_a_branch_is_deleted_and_may_be_missing(repo: Repository, shop: Repo) -> None:
    await repo.delete_branch("capuchin/x")
    await repo.delete_branch("capuchin/x")
    assert shop.list_branches() == ["main"]
