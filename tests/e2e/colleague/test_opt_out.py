"""The label `capuchin:disabled` keeps us away, from an issue or from a pull request of ours."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.types import RunStatus
from tests.e2e.colleague.conftest import CrewUp
from tests.e2e.colleague.crew import Crew
from tests.e2e.colleague.test_evidence_check import opened
from tests.e2e.colleague.test_follow_up import LINE, replies


@pytest.mark.parametrize("how", ["label", "command"])
async def test_an_issue_that_wears_it_is_left_alone_until_it_is_taken_off(
    crew: Crew, how: str
) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    await crew.label(issue, suffix=":Disabled")
    await (crew.label(issue) if how == "label" else crew.say(issue, "/capuchin fix anyway"))
    await crew.settle()
    (said,) = crew.said(issue)
    assert said.startswith("I leave this alone, as it wears the label `capuchin:disabled`.")
    assert (crew.workshop.jobs, repo.pulls) == ([], [])
    assert issue.labels == ["capuchin:Disabled"]
    await crew.hub.remove_label(issue, "capuchin:Disabled", "alice")
    await crew.label(issue)
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_pull_request_that_wears_it_is_neither_followed_nor_closed(
    crew_up: CrewUp,
) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        await crew.hub.add_label(pull, "capuchin:disabled", "alice")
        pull.updated_at -= timedelta(days=40)
        await crew.hub.review(pull, "alice", lines=LINE)
        await crew.settle()
        assert (crew.workshop.tasks, replies(crew, pull), pull.state) == ([], [], "open")
        await crew.hub.remove_label(pull, "capuchin:disabled", "alice")
        await crew.hub.review(pull, "alice", lines=[("shop.py", 1, "And here?")])
        await crew.settle()
        assert len(crew.workshop.tasks[0].feedback) == 2
