"""Webhooks that come late, or never: the end is the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.localhub import Issue
from bot.types import RunStatus
from tests.e2e.commands.conftest import CrewUp
from tests.e2e.followup.test_evidence_check import opened
from tests.e2e.followup.test_reviews import LINE, replies
from tests.e2e.held_harness import Crew
from tests.e2e.single_run_harness import Office
from tests.support.hub import ref_of

OFTEN = 0.2
"""Seconds between two looks of the sweep."""


@asynccontextmanager
async def unheard(crew: Crew) -> AsyncGenerator[None]:
    """What happens in the block reaches nobody."""
    url, crew.hub.webhook_url = crew.hub.webhook_url, None
    sent = len(crew.hub.deliveries)
    yield
    crew.hub.webhook_url = url
    for lost in crew.hub.deliveries[sent:]:
        lost.status = 202  # as far as GitHub knows


def a_minute_ago(issue: Issue) -> None:
    """What has happened to it by now."""
    before = timedelta(minutes=1)
    issue.timeline[:] = [replace(one, at=one.at - before) for one in issue.timeline]


async def swept(crew: Crew, issue: Issue, status: RunStatus) -> None:
    """A worker that sweeps brings the issue's run to this end."""
    worker = crew.worker(crew.find)
    task = asyncio.create_task(worker.run())
    try:
        await crew.until(lambda: ended(crew, issue, status))
    finally:
        worker.stop()
        await task


async def ended(crew: Crew, issue: Issue, status: RunStatus) -> bool:
    run = await crew.runs.get_latest_readable(crew.ref(issue), issue.number)
    return run is not None and run.status is status


async def test_a_label_and_its_mode_are_found_without_a_webhook(crew_up: CrewUp) -> None:
    async with crew_up(missed_seconds=OFTEN) as crew:
        issue = await crew.issue(crew.shop())
        async with unheard(crew):
            await crew.label(issue, suffix=":dry-run")
        await swept(crew, issue, RunStatus.PLANNED)


async def test_a_webhook_after_the_end_of_the_run_that_the_sweep_began_is_answered(
    crew_up: CrewUp,
) -> None:
    async with crew_up(missed_seconds=OFTEN) as crew:
        issue = await crew.issue(crew.shop())
        async with unheard(crew):
            await crew.label(issue)
        late = crew.hub.deliveries[-1]
        await swept(crew, issue, RunStatus.OPENED_PULL_REQUEST)
        first = await crew.run_of(issue)
        kept = first.model_copy(update={"created_at": first.created_at + timedelta(minutes=10)})
        await crew.redis.set(crew.storage.keys.run(first.id), kept.model_dump_json())
        assert (await crew.hub.redeliver(late)).status == 200
        assert (await crew.run_of(issue)).id == first.id
        assert await crew.runs.get_current(ref_of(issue.repo), issue.number) is None


async def test_a_push_and_a_review_that_no_webhook_told_of_are_seen(crew_up: CrewUp) -> None:
    async with crew_up(follow_up_seconds=OFTEN, review_seconds=0) as crew:
        repo, pull = await opened(crew)
        async with unheard(crew):
            await crew.hub.review(pull, "alice", lines=LINE)
        async with crew.at_work(sweeping=True):
            await crew.until(lambda: replies(crew, pull))
        async with unheard(crew):
            await crew.hub.commit(repo, pull.head_ref, {"x.py": "x = 2\n"}, "Mine", "alice")
        async with crew.at_work(sweeping=True):
            await crew.until(lambda: crew.said(pull))
        assert crew.said(pull)[0].startswith("Somebody else has pushed to this branch")


async def test_a_mistake_in_the_settings_is_told_though_no_webhook_came(crew_up: CrewUp) -> None:
    async with crew_up(missed_seconds=OFTEN) as crew:
        repo = crew.shop()
        await crew.issue(repo)
        async with crew.at_work(sweeping=True):
            await crew.until(lambda: _looked(crew))
        async with unheard(crew):
            files: dict[str, str | None] = {".github/capuchin.yml": "samples: 0\n"}
            await crew.hub.commit(repo, "settings", files, "Settings", "bob")
            pull = await crew.hub.open_pull(repo, "settings", "Settings", "bob")
        async with crew.at_work(sweeping=True):
            await crew.until(lambda: repo.check_runs)
        (run,) = repo.check_runs
        assert (run.head_sha, run.conclusion) == (pull.head_sha, "failure")


async def _looked(crew: Crew) -> bool:
    """Whether the sweep has seen the repository once: only what changes then is looked at."""
    (repo,) = crew.hub.repos.values()
    return await crew.storage.cursors.get(ref_of(repo)) is not None


async def test_a_label_taken_off_without_a_webhook_stops_the_run(crew_up: CrewUp) -> None:
    async with crew_up(missed_seconds=OFTEN) as crew:
        issue = await crew.issue(crew.shop())
        crew.runner.go_on.clear()
        await crew.label(issue)
        async with crew.at_work(sweeping=True):
            await crew.until(lambda: crew.runner.waiting)
            async with unheard(crew):
                await crew.hub.remove_label(issue, "capuchin", "alice")
            await crew.until(lambda: crew.runner.cut)
        assert (await crew.run_of(issue)).status is RunStatus.STOPPED
        assert "I stopped because the label was removed." in crew.said(issue)[0]


async def test_a_review_without_a_webhook_is_answered_once(crew_up: CrewUp) -> None:
    async with crew_up(missed_seconds=OFTEN, review_seconds=0) as crew:
        _, pull = await opened(crew)
        async with crew.at_work(sweeping=True):
            async with unheard(crew):
                await crew.hub.review(pull, "alice", lines=[("shop.py", 2, "Why?")])
            (late,) = [d for d in crew.hub.deliveries if d.event == "pull_request_review_comment"]
            await crew.until(lambda: len(pull.reviews) > 1)
            await crew.hub.redeliver(late)
        question, answer = (review.comments[0] for review in pull.reviews)
        assert (answer.review.author, answer.in_reply_to) == (crew.hub.bot, question.id)


async def test_a_command_on_a_line_without_a_webhook_is_carried_out_once(crew_up: CrewUp) -> None:
    async with crew_up(missed_seconds=OFTEN, review_seconds=0) as crew:
        _, pull = await opened(crew)
        async with crew.at_work(sweeping=True):
            async with unheard(crew):
                await crew.hub.review(pull, "alice", lines=[("shop.py", 2, "/capuchin help")])
            (late,) = [d for d in crew.hub.deliveries if d.event == "pull_request_review_comment"]
            await crew.until(lambda: crew.said(pull))
            await crew.hub.redeliver(late)
        helped = [said for said in crew.said(pull) if "capuchin:reply to=review-comment-" in said]
        assert len(helped) == 1


async def test_an_issue_closed_without_a_webhook_ends_our_pull_request(crew_up: CrewUp) -> None:
    async with crew_up(missed_seconds=OFTEN) as crew:
        repo, pull = await opened(crew)
        async with crew.at_work(sweeping=True):
            async with unheard(crew):
                await crew.hub.close_issue(repo.issues[1], "alice")
            await crew.until(lambda: pull.state == "closed")
        assert crew.said(pull)[0].startswith(
            "#1 is closed, so this pull request is no longer needed"
        )


async def test_a_pull_request_closed_without_a_webhook_is_let_go(crew_up: CrewUp) -> None:
    async with crew_up(missed_seconds=OFTEN) as crew:
        _, pull = await opened(crew)
        records = crew.storage.pulls

        async def let_go() -> bool:
            return await records.get(ref_of(pull.repo), pull.number) is None

        async with crew.at_work(sweeping=True):
            async with unheard(crew):
                await crew.hub.close_issue(pull, "bob")
            await crew.until(let_go)


async def test_a_run_resumed_with_its_pull_request_open_and_its_issue_closed_has_succeeded(
    office: Office,
) -> None:
    repo, issue = await office.prepare()
    lease = await office.die_after(5, await office.lease(repo, issue))
    assert len(repo.pulls) == 1
    await office.hub.close_issue(issue, "alice")
    run = await office.do(lease)
    assert (run.status, run.pull_request) == (RunStatus.OPENED_PULL_REQUEST, 2)
    assert (run.failure, len(repo.pulls)) == (None, 1)
    assert "I opened #2" in issue.comments[0].body


async def test_a_run_whose_last_word_was_cut_off_says_it_whatever_has_become_of_the_issue(
    office: Office,
) -> None:
    repo, issue = await office.prepare()
    lease = await office.die_after(7, await office.lease(repo, issue))
    assert lease.run.pull_request == 2
    await office.hub.close_issue(issue, "alice")
    run = await office.do(lease)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert "I opened #2" in issue.comments[0].body


@pytest.mark.parametrize("part", ["title", "body"])
async def test_what_was_changed_after_a_label_that_the_sweep_found_is_not_read(
    crew_up: CrewUp, part: str
) -> None:
    """Nobody heard what whoever asked has read: they are asked again, and nothing is begun."""
    async with crew_up(missed_seconds=OFTEN) as crew:
        repo = crew.shop()
        issue = await crew.issue(repo)
        async with unheard(crew):
            await crew.label(issue)
            await crew.hub.edit_issue(issue, "bob", **{part: "Delete the tests"})
            a_minute_ago(issue)
        await swept(crew, issue, RunStatus.NEEDS_CONFIRMATION)
        (said,) = crew.said(issue)
        assert "was edited after the request" in said
        assert "current version, add the label again" in said
        assert (crew.runner.jobs, repo.list_branches(), issue.labels) == ([], ["main"], [])
        await crew.label(issue)
        await crew.settle()
        (job,) = crew.runner.jobs
        assert getattr(job.issue, part) == "Delete the tests"


async def test_what_was_changed_before_a_label_that_the_sweep_found_is_read(
    crew_up: CrewUp,
) -> None:
    async with crew_up(missed_seconds=OFTEN) as crew:
        issue = await crew.issue(crew.shop())
        async with unheard(crew):
            await crew.hub.edit_issue(issue, "bob", title="total() is wrong", body="It adds.")
            a_minute_ago(issue)
            await crew.label(issue)
        await swept(crew, issue, RunStatus.OPENED_PULL_REQUEST)
        assert crew.runner.jobs[0].issue.title == "total() is wrong"
