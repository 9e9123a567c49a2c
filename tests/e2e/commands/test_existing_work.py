"""Whether somebody works on the issue already, and how to go on all the same."""

from __future__ import annotations

import pytest

from bot.localhub import Issue, Repo
from bot.localhub.actions.pulls import NewPull, open_pull
from bot.types import RunStatus
from tests.e2e.held_harness import Crew

AGAIN = "add the label again or write `/capuchin fix anyway`"


async def pull_by(crew: Crew, repo: Repo, body: str, *, author: str = "bob") -> None:
    """Somebody's open pull request."""
    await crew.hub.commit(repo, "work", {"x.py": "x = 1\n"}, "Work", author)
    asked = NewPull("Some work", body, "work", "main")
    await open_pull(crew.hub, repo, asked, crew.hub.add_user(author))
    await crew.hub.wait_until_delivered()


async def seen(crew: Crew, issue: Issue, how: str) -> str:
    """Make it look as if somebody worked on it; what the bot says to it."""
    match how:
        case "assigned":
            await crew.hub.assign(issue, "bob", "alice")
            return "it is assigned to `bob`"
        case "pull":
            await pull_by(crew, issue.repo, f"Fixes #{issue.number}")
            return f"the open pull request #{issue.number + 1} by `bob` says that it fixes this"
        case "url":
            url = f"https://github.com/acme/shop/issues/{issue.number}"
            await pull_by(crew, issue.repo, f"This resolves {url}")
            return f"the open pull request #{issue.number + 1} by `bob` says that it fixes this"
        case _:
            name = f"{issue.number}-total-subtracts"
            await crew.hub.commit(issue.repo, name, {"x.py": "x = 1\n"}, "Work", "bob")
            return f"there are branches named after this issue: `{name}`"


@pytest.mark.parametrize(
    ("how", "on"),
    [("assigned", "label"), ("pull", "again"), ("url", "anyway"), ("branch", "label")],
)
async def test_it_asks_first_and_goes_on_when_told_to(crew: Crew, how: str, on: str) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    words = await seen(crew, issue, how)
    before = len(repo.pulls)
    await crew.label(issue)
    await crew.settle()
    (said,) = crew.said(issue)
    assert words in said
    assert AGAIN in said
    assert (await crew.run_of(issue)).status is RunStatus.NEEDS_CONFIRMATION
    assert (crew.runner.jobs, issue.labels) == ([], [])
    if on == "label":
        await crew.label(issue)
    else:
        await crew.say(issue, "/capuchin fix" + (" anyway" if on == "anyway" else ""))
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert len(repo.pulls) == before + 1


async def test_a_stranger_cannot_confirm(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    await seen(crew, issue, "assigned")
    await crew.label(issue)
    await crew.settle()
    await crew.say(issue, "/capuchin fix anyway", by="mallory")
    await crew.settle()
    assert (crew.runner.jobs, repo.pulls) == ([], [])


@pytest.mark.parametrize(
    "body", ["See #1.", "Fixes #12", "Fixes other/shop#1", "prefixes #1", "Fixes: #2"]
)
async def test_a_pull_request_that_only_mentions_it_is_no_sign(crew: Crew, body: str) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    await pull_by(crew, repo, body)
    await crew.label(issue)
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_closed_pull_request_and_being_assigned_oneself_are_no_signs(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    await pull_by(crew, repo, "Fixes #1")
    await crew.hub.close_issue(repo.pulls[0], "bob")
    await crew.hub.assign(issue, "alice", "alice")
    await crew.label(issue)
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_locked_issue_is_left_alone_until_somebody_insists(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    issue.locked = True
    await crew.label(issue)
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.NEEDS_CONFIRMATION
    assert (crew.said(issue), repo.pulls) == ([], [])
    await crew.say(issue, "/capuchin fix anyway")
    await crew.settle()
    assert len(repo.pulls) == 1


async def test_our_own_open_pull_request_is_a_sign_too(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    for _ in range(2):
        await crew.label(issue)
        await crew.settle()
    assert len(repo.pulls) == 1
    assert (
        "the open pull request #2 by `capuchin[bot]` says that it fixes this" in crew.said(issue)[1]
    )


async def test_a_dry_run_asks_nobody(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    await seen(crew, issue, "assigned")
    await crew.say(issue, "/capuchin plan")
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.PLANNED
