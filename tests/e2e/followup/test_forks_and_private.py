"""Forks, in both directions, and private repositories: what goes where, and what never does."""

from __future__ import annotations

from bot.localhub.ci import report_check
from bot.types import RunStatus
from tests.e2e.commands.conftest import CrewUp
from tests.e2e.forks import fork_pull
from tests.e2e.held_harness import Crew

THEIRS = {"shop.py": ("100644", "def total(a, b):\n    return a + b + 0\n")}


async def test_a_pull_request_from_a_fork_is_never_pushed_to(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        repo = crew.shop()
        pull = await fork_pull(crew.hub, repo, THEIRS)
        before = repo.git.list_refs("")
        await crew.hub.review(pull, "alice", "No.", "CHANGES_REQUESTED", [("shop.py", 2, "Why?")])
        await report_check(crew.hub, pull, "failure")
        await crew.say(pull, "/capuchin fix")
        await crew.settle()
        await crew.say(pull, "/capuchin use 2")
        await crew.settle()
        told, other = crew.said(pull)
        assert told.startswith("I did not open this pull request")
        assert other.startswith("I have not opened a pull request for this")
        assert (crew.runner.tasks, crew.runner.jobs) == ([], [])
        assert repo.git.list_refs("") == before


async def test_a_fork_with_a_branch_of_our_name_is_not_taken_for_ours(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    theirs = await fork_pull(crew.hub, repo, THEIRS, "capuchin/issue-1-total-subtracts")
    await crew.label(issue)
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    ours = repo.pulls[-1]
    assert (ours.author, ours.head_ref) == (crew.hub.bot, theirs.head_ref)
    assert (theirs.body, theirs.comments, theirs.labels) == ("", [], [])
    await crew.hub.close_issue(issue, "alice")
    await crew.settle()
    assert (ours.state, theirs.state) == ("closed", "open")


async def test_in_a_fork_all_stays_in_the_fork(crew: Crew) -> None:
    upstream = crew.shop()
    fork = crew.shop("bob/shop")
    issue = await crew.issue(fork)
    before = upstream.git.list_refs("")
    await crew.label(issue)
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    (pull,) = fork.pulls
    assert pull.base_ref == "main"
    assert upstream.git.list_refs("") == before
    assert [e for e in crew.hub.requests if "acme/shop" in e.path] == []


async def test_nothing_of_a_private_repository_shows_in_a_public_one(crew_up: CrewUp) -> None:
    async with crew_up(public_url="https://bot.acme.test") as crew:
        public = crew.shop()
        private = crew.shop("acme/hidden", private=True)
        open_issue, secret = await crew.issue(public), await crew.issue(private)
        crew.runner.go_on.clear()
        async with crew.at_work():
            await crew.label(secret)
            await crew.until(lambda: crew.runner.waiting)
            await crew.label(open_issue)
            await crew.say(open_issue, "/capuchin status")
            crew.runner.go_on.set()
        run = await crew.run_of(secret)
        assert run.status is RunStatus.OPENED_PULL_REQUEST
        shown = [*crew.said(open_issue), *(pull.body or "" for pull in public.pulls)]
        shown += [f"{check.summary} {check.text}" for check in public.check_runs]
        assert len(shown) >= 3
        for text in shown:
            assert "hidden" not in text
            assert run.id not in text
        # Its page opens only with the key in the link, which is on the private issue alone.
        assert f"https://bot.acme.test/runs/{run.id}?key=" in crew.said(secret)[0]
