"""Whatever a worker dies of and whenever: one branch, one pull request, one comment."""

from __future__ import annotations

import pytest

from bot.comments.status import status_marker
from bot.data.run import Run, RunStatus
from capuchin_demo.hub.state import Issue, Repo
from tests.e2e.harness import BotHarness

pytestmark = pytest.mark.spine

BRANCH = "capuchin/issue-1-total-subtracts"
EFFECTS = [
    "POST reactions",
    "POST comments",
    "POST git-receive-pack",
    "POST pulls",
    "POST requested_reviewers",
    "PATCH {comment}",
    "POST reactions",
    "DELETE {reaction}",
    "DELETE capuchin",
]
"""All that a run does to GitHub, in order; progress aside."""


def assert_published_once(repo: Repo, issue: Issue, run: Run) -> None:
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert repo.list_branches() == [BRANCH, "main"]
    assert repo.list_commits(BRANCH) == [
        "Make total() add",
        "Add a failing test for #1",
        "Initial commit",
    ]
    assert [(pull.head_ref, pull.draft) for pull in repo.pulls] == [(BRANCH, True)]
    assert "\n\nFixes #1\n\n" in (repo.pulls[0].body or "")
    assert len(issue.comments) == 1
    assert f"I opened #{repo.pulls[0].number}" in issue.comments[0].body
    assert status_marker(run.id) in issue.comments[0].body
    assert [reaction.content for reaction in issue.reactions] == ["rocket"]
    assert issue.labels == []


async def test_a_run_has_these_effects_and_no_others(manual_bot: BotHarness) -> None:
    repo, issue = await manual_bot.prepare_issue()
    run = await manual_bot.work_on(await manual_bot.lease(repo, issue))
    assert_published_once(repo, issue, run)
    assert [effect.split()[0] for effect in manual_bot.effects] == [e.split()[0] for e in EFFECTS]
    assert repo.pulls[0].requested_reviewers[0].login == "alice"


@pytest.mark.parametrize("effect", range(1, len(EFFECTS) + 1))
async def test_a_worker_that_dies_after_an_effect_is_replaced_without_a_trace(
    manual_bot: BotHarness, effect: int
) -> None:
    repo, issue = await manual_bot.prepare_issue()
    lease = await manual_bot.die_after(effect, await manual_bot.lease(repo, issue))
    run = await manual_bot.work_on(lease)
    assert_published_once(repo, issue, run)


async def test_a_run_that_was_done_and_is_done_again_changes_nothing(
    manual_bot: BotHarness,
) -> None:
    repo, issue = await manual_bot.prepare_issue()
    lease = await manual_bot.lease(repo, issue)
    await manual_bot.parts.solve.handle(lease.run, lease)
    run = await manual_bot.parts.solve.handle(lease.run, lease)
    assert_published_once(repo, issue, run)


@pytest.mark.parametrize("after_effect", [True, False], ids=["after", "before"])
@pytest.mark.parametrize(
    "path",
    [
        "/repos/*/issues/1/reactions",
        "/repos/*/issues/1/comments",
        "/acme/shop.git/git-receive-pack",
        "/repos/*/pulls",
        "/repos/*/requested_reviewers",
    ],
)
async def test_a_lost_answer_makes_nothing_twice(
    manual_bot: BotHarness, path: str, after_effect: bool
) -> None:
    repo, issue = await manual_bot.prepare_issue()
    lease = await manual_bot.lease(repo, issue)
    manual_bot.hub.faults.fail_next("POST", path, status=502, after_effect=after_effect)
    run = await manual_bot.work_on_patiently(lease)
    assert_published_once(repo, issue, run)
    assert manual_bot.hub.faults.pending == []
