"""The label `capuchin:disabled` keeps us away, from an issue or from a pull request of ours."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from bot.types import RunStatus
from pipeline.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.commands.conftest import CrewUp
from tests.e2e.followup.test_evidence_check import opened
from tests.e2e.followup.test_missed_webhooks import unheard
from tests.e2e.followup.test_reviews import LINE, MORE, replies
from tests.e2e.held_harness import Crew


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
    assert said.startswith("I will not work on this because it has the label `capuchin:disabled`.")
    assert (crew.runner.jobs, repo.pulls) == ([], [])
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
        assert (crew.runner.tasks, replies(crew, pull), pull.state) == ([], [], "open")
        await crew.hub.remove_label(pull, "capuchin:disabled", "alice")
        await crew.hub.review(pull, "alice", lines=[("shop.py", 1, "And here?")])
        await crew.settle()
        assert len(crew.runner.tasks[0].feedback) == 2


@pytest.mark.parametrize("heard", ["webhook", "sweep"])
async def test_put_on_during_a_run_it_stops_that(crew_up: CrewUp, heard: str) -> None:
    async with crew_up(missed_seconds=0.2) as crew:
        repo = crew.shop()
        issue = await crew.issue(repo)
        crew.runner.go_on.clear()
        async with crew.at_work(sweeping=heard == "sweep"):
            await crew.label(issue)
            await crew.until(lambda: crew.runner.waiting)
            if heard == "webhook":
                await crew.label(issue, suffix=":Disabled")
            else:
                async with unheard(crew):
                    await crew.label(issue, suffix=":Disabled")
            await crew.until(lambda: crew.runner.cut)
        run = await crew.run_of(issue)
        assert (run.status, run.dollars) == (RunStatus.STOPPED, 0.25)
        by = " (@alice)" if heard == "webhook" else ""
        (said,) = crew.said(issue)
        assert said.startswith(
            f"I stopped because the label `capuchin:Disabled` was added{by}. I had spent $0.25 at "
            "list prices. To restart, remove that label and ask again."
        )
        assert (repo.list_branches(), repo.pulls) == (["main"], [])
        assert issue.labels == ["capuchin:Disabled"]


async def test_one_that_is_off_again_stops_nothing(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    await crew.label(issue, suffix=":disabled")
    put_on = crew.hub.deliveries[-1]
    await crew.hub.remove_label(issue, "capuchin:disabled", "alice")
    await crew.label(issue)
    await crew.hub.redeliver(put_on)
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_put_on_before_the_first_start_it_is_told_of(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    await crew.label(issue)
    await crew.label(issue, suffix=":disabled")
    await crew.settle()
    (said,) = crew.said(issue)
    assert said.startswith("I will not work on this because it has the label `capuchin:disabled`.")
    assert (crew.runner.jobs, issue.labels) == ([], ["capuchin:disabled"])


async def test_put_on_our_pull_request_it_stops_a_follow_up(crew_up: CrewUp) -> None:
    async with crew_up(review_seconds=0) as crew:
        _, pull = await opened(crew)
        head = pull.head_sha
        crew.runner.revised = Revision(patch=Patch(diff=MORE), answer="Done.")

        async def kept_away() -> None:
            await crew.hub.add_label(pull, "capuchin:disabled", "alice")
            await asyncio.sleep(60)  # a call of the model, under way

        crew.runner.meanwhile = kept_away
        async with crew.at_work():
            await crew.hub.review(pull, "alice", lines=LINE)
        (said,) = crew.said(pull)
        assert said.startswith(
            "I stopped because the label `capuchin:disabled` was added (@alice). I had spent"
        )
        assert (pull.head_sha, replies(crew, pull)) == (head, [])
        assert len(crew.runner.tasks) == 1


async def test_what_only_waits_on_our_pull_request_is_stopped_without_a_word(
    crew_up: CrewUp,
) -> None:
    async with crew_up(review_seconds=60) as crew:
        _, pull = await opened(crew)
        async with crew.at_work():
            await crew.hub.review(pull, "alice", lines=LINE)
            await crew.until(lambda: crew.runs.get_current(crew.ref(pull), pull.number))
            await crew.hub.add_label(pull, "capuchin:disabled", "alice")
            await crew.until(lambda: crew.hurried(pull))
        assert (crew.runner.tasks, crew.said(pull), replies(crew, pull)) == ([], [], [])
