"""The client's reads, against the protocol of a GitHub Enterprise Server."""

from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.data.request import RunRequest
from bot.data.run import IssueSnapshot, Login, Mode, RepoRef
from bot.errors import NotFound
from bot.github.app import GitHubApp
from bot.github.repository import Repository
from bot.queue.missed_webhooks import find_missed_events
from bot.storage.keys import Keys
from bot.storage.workers import Cursors
from bot.webhooks.labels import BotNames
from capuchin_demo.hub.state import Repo
from pipeline.data.types import CommitSha
from sandbox.frozen import replace
from tests.support.github.hub import LocalHub
from tests.support.hub import ref_of


async def test_we_know_who_we_are(repo: Repository, hub: LocalHub) -> None:
    assert repo.identity.login == "capuchin[bot]"
    assert repo.identity.email == f"{hub.bot.id}+capuchin[bot]@users.noreply.127.0.0.1"


async def test_a_deleted_repository_gives_none(repo: Repository, hub: LocalHub, shop: Repo) -> None:
    await hub.delete_repo(shop)
    assert await repo.get_facts() is None


async def test_a_repository_we_were_taken_off_gives_none(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    hub.add_repo("acme/other")
    await hub.uninstall(shop)
    assert await repo.get_facts() is None


async def test_a_repository_outside_the_installation_is_not_found(
    app: GitHubApp, hub: LocalHub, shop: Repo
) -> None:
    secret = ref_of(hub.add_repo("acme/secret", installed=False))
    ref = replace(secret, installation=ref_of(shop).installation)
    with pytest.raises(NotFound):
        async with app.open_repository(ref):
            pass


async def test_an_unknown_installation_is_not_found(app: GitHubApp, shop: Repo) -> None:
    with pytest.raises(NotFound):
        async with app.open_repository(
            RepoRef(id=1, owner="acme", name="shop", installation=999_999)
        ):
            pass


async def test_a_deleted_or_unknown_issue_gives_none(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    issue = await hub.open_issue(shop, "x")
    await hub.delete_issue(issue, "alice")
    assert await repo.issues.get(issue.number) is None
    assert await repo.issues.get(4711) is None


async def test_comments_come_oldest_first_over_all_pages(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    issue = await hub.open_issue(shop, "x")
    for number in range(205):
        await hub.comment(issue, f"number {number}", "bob")
    said = [comment.body async for comment in repo.issues.list_comments(issue.number)]
    assert said == [f"number {number}" for number in range(205)]


async def test_very_many_comments_are_bounded(repo: Repository, hub: LocalHub, shop: Repo) -> None:
    issue = await hub.open_issue(shop, "x")
    for number in range(510):
        await hub.comment(issue, str(number), "bob")
    assert len([comment async for comment in repo.issues.list_comments(issue.number)]) == 500


@pytest.mark.parametrize("role", ["admin", "maintain", "write", "triage", "read"])
async def test_permission_tells_all_roles(
    repo: Repository, shop: Repo, hub: LocalHub, role: str
) -> None:
    hub.add_user("carol")
    shop.grant("carol", role)
    assert await repo.get_permission(Login("carol")) == role


@pytest.mark.parametrize("login", ["nobody-at-all", "..", ".", "", "a/../../user", "x?y#z"])
async def test_a_stranger_or_hostile_login_has_no_permission(repo: Repository, login: str) -> None:
    assert await repo.get_permission(Login(login)) in ("none", "read")
    assert await repo.get_permission(Login("..")) == "none"


async def test_what_is_no_text_file_gives_none(repo: Repository, hub: LocalHub, shop: Repo) -> None:
    await hub.commit(shop, "main", {"d/x#y.md": "sharp", "d/x": "plain"}, "x", "alice")
    assert await repo.read_file("missing") is None
    assert await repo.read_file("d") is None
    assert await repo.read_file("..", "..", "user") is None
    assert await repo.read_file("d", "x#y.md") == "sharp"


async def test_a_branch_head_is_found(repo: Repository, hub: LocalHub, shop: Repo) -> None:
    sha = await hub.commit(shop, "capuchin/issue-7", {"x": "y"}, "x", "alice")
    assert await repo.get_branch_head("capuchin/issue-7") == sha
    assert await repo.get_branch_head("capuchin/issue") is None
    assert await repo.get_branch_head("a/../../b") is None


async def test_labelled_issues_are_found_without_pull_requests(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    wanted = await hub.open_issue(shop, "x", labels=["capuchin"])
    await hub.open_issue(shop, "y")
    done = await hub.open_issue(shop, "z", labels=["capuchin"])
    await hub.close_issue(done, "alice")
    found = [issue.number async for issue in repo.issues.list_with_label("capuchin")]
    assert found == [wanted.number]


async def test_all_repositories_of_the_app_are_listed(app: GitHubApp, hub: LocalHub) -> None:
    for name in ("acme/a", "acme/b", "other/c"):
        hub.add_repo(name)
    hub.add_repo("acme/d", installed=False)
    found = [ref.full_name async for ref in app.list_repositories()]
    assert sorted(found) == ["acme/a", "acme/b", "other/c"]


async def test_who_labelled_an_issue_last_is_found(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    issue = await hub.open_issue(shop, "x", labels=["capuchin"], author="bob")
    assert await repo.issues.find_labeler(issue.number, "other") is None
    await hub.remove_label(issue, "capuchin", "alice")
    await hub.add_label(issue, "Capuchin", "alice")
    found = await repo.issues.find_labeler(issue.number, "capuchin")
    assert found is not None
    assert found[0] == "alice"


NAMES = BotNames(label="capuchin", app="capuchin")


@pytest.fixture
def cursors(redis: Redis, redis_prefix: str) -> Cursors:
    return Cursors(redis, Keys(redis_prefix))


async def found(app: GitHubApp, cursors: Cursors) -> list[tuple[object, ...]]:
    """The result of a search for changed issues: new requests, and withdrawn ones."""
    return [
        (one.issue, one.asked_by, one.label, one.mode)
        if isinstance(one, RunRequest)
        else (one.issue, one.closed, one.labels)
        async for one in find_missed_events(app, NAMES, cursors)
        if isinstance(one, RunRequest | IssueSnapshot)
    ]


async def test_a_label_that_a_bot_put_on_asks_for_nothing(
    app: GitHubApp, hub: LocalHub, shop: Repo, cursors: Cursors
) -> None:
    issue = await hub.open_issue(shop, "x", labels=["capuchin"], author="alice")
    await hub.remove_label(issue, "capuchin", "alice")
    await hub.add_label(issue, "capuchin", hub.app.bot_login)
    assert await found(app, cursors) == []


async def test_the_first_look_finds_every_label_of_ours_in_all_repositories(
    app: GitHubApp, hub: LocalHub, shop: Repo, cursors: Cursors
) -> None:
    await hub.open_issue(shop, "x", labels=["Capuchin"], author="alice")
    gone = hub.add_repo("other/gone", {"x": "y"})
    await hub.open_issue(gone, "x")
    await hub.open_issue(gone, "y", labels=["capuchin:dry-run"], author="bob")
    assert await found(app, cursors) == [
        (1, "alice", "Capuchin", Mode.FIX),
        (2, "bob", "capuchin:dry-run", Mode.PLAN),
    ]


async def test_a_later_look_finds_what_has_changed_and_is_free_where_nothing_has(
    app: GitHubApp, hub: LocalHub, shop: Repo, cursors: Cursors
) -> None:
    old = await hub.open_issue(shop, "x", labels=["capuchin"], author="alice")
    old.updated_at -= timedelta(days=2)
    await found(app, cursors)
    new = await hub.open_issue(shop, "y", labels=["capuchin"], author="alice")
    expected = [(new.number, "alice", "capuchin", Mode.FIX), (new.number, False, ("capuchin",))]
    assert await found(app, cursors) == expected
    assert await found(app, cursors) == expected  # More may have arrived within the same second.
    left = hub.limit.remaining
    assert await found(app, cursors) == []
    (listing,) = (one for one in hub.requests[-3:] if one.path.endswith("/issues"))
    assert listing.status == 304
    assert left - hub.limit.remaining <= 1  # The list of repositories
    await hub.close_issue(new, "alice")
    assert (await found(app, cursors))[-1] == (new.number, True, ("capuchin",))


async def test_what_was_opened_and_committed_since_is_read(
    repo: Repository, hub: LocalHub, shop: Repo
) -> None:
    await hub.commit(shop, "fix", {"shop.py": "fixed\n"}, "Fix it", "alice")
    made = await hub.open_pull(shop, "fix", "Fix", "alice")
    before = made.created_at - timedelta(days=1)
    later = made.created_at + timedelta(days=1)
    found, more = await repo.pulls.list_since(before)
    assert ([one.number for one in found], more) == ([made.number], False)
    assert await repo.pulls.list_since(later) == ([], False)
    (commit,) = await repo.pulls.list_commits(made.number)
    assert (commit.sha, commit.message) == (made.head_sha, "Fix it")
    assert (commit.author_type, commit.author_email) == ("User", "owner@example.com")
    assert len(commit.parents) == 1
    assert await repo.list_commits("nothing", before) == ([], False)
    assert await repo.list_commits("fix", later) == ([], False)
    assert await repo.issues.find_merge_commit(made.number) is None
    await hub.merge(made, "alice")
    merged = await repo.issues.find_merge_commit(made.number)
    history, more = await repo.list_commits("main", before)
    assert (history[0].sha, more) == (merged, False)
    assert await repo.pulls.find_merged_with(CommitSha("0" * 40)) is None
