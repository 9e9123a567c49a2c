"""Stopping a run: by whom, when, how fast, and what is left behind."""

from __future__ import annotations

import pytest

from bot.types import Run, RunStatus
from tests.e2e.held_harness import Crew


@pytest.mark.parametrize("how", ["label", "close", "command", "delete", "transfer"])
async def test_a_run_is_stopped_while_it_is_worked_on(crew: Crew, how: str) -> None:
    repo = crew.shop()
    other = crew.shop("acme/other")
    issue = await crew.issue(repo)
    crew.runner.go_on.clear()
    async with crew.at_work():
        await crew.label(issue)
        await crew.until(lambda: crew.runner.waiting)
        match how:
            case "label":
                await crew.hub.remove_label(issue, "capuchin", "alice")
            case "close":
                await crew.hub.close_issue(issue, "bob")
            case "command":
                await crew.say(issue, "/capuchin stop")
            case "delete":
                await crew.hub.delete_issue(issue, "alice")
            case _:
                await crew.hub.transfer_issue(issue, other, "alice")
        await crew.until(lambda: crew.runner.cut)
    run = await crew.run_of(issue)
    assert (run.status, run.dollars) == (RunStatus.STOPPED, 0.25)
    assert (repo.list_branches(), repo.pulls) == (["main"], [])
    if how in ("label", "close", "command"):
        assert "I had spent $0.25 at list prices." in crew.said(issue)[0]
        assert "capuchin" not in issue.labels


async def test_a_worker_stops_what_another_process_heard_of(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    crew.runner.go_on.clear()
    await crew.label(issue)
    async with crew.at_work():
        await crew.until(lambda: crew.runner.waiting)
        second = Crew(crew.hub, crew.redis, crew.settings, crew.settings.data_dir)
        await crew.say(issue, "/capuchin stop")
        async with second.at_work():
            await crew.until(lambda: crew.runner.cut)
    assert (await crew.run_of(issue)).status is RunStatus.STOPPED


async def test_a_label_taken_off_before_the_first_start_means_no_run_and_no_word(
    crew: Crew,
) -> None:
    issue = await crew.issue(crew.shop())
    await crew.label(issue)
    await crew.hub.remove_label(issue, "capuchin", "alice")
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.STOPPED
    assert (crew.runner.jobs, crew.said(issue), issue.reactions) == ([], [], [])


async def test_that_holds_even_if_only_the_first_webhook_came(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    await crew.label(issue)
    url, crew.hub.webhook_url = crew.hub.webhook_url, None
    await crew.hub.remove_label(issue, "capuchin", "alice")
    crew.hub.deliveries.clear()
    crew.hub.webhook_url = url
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.STOPPED
    assert (crew.runner.jobs, crew.said(issue)) == ([], [])


async def test_webhooks_out_of_order_stop_nothing(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    await crew.label(issue)
    await crew.hub.remove_label(issue, "capuchin", "alice")
    taken_off = crew.hub.deliveries[-1]
    await crew.settle()
    await crew.label(issue)
    await crew.hub.redeliver(taken_off)
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_run_that_a_comment_began_needs_no_label(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    await crew.hub.add_label(issue, "capuchin", crew.hub.bot.login)
    crew.runner.go_on.clear()
    async with crew.at_work():
        await crew.say(issue, "/capuchin fix")
        await crew.until(lambda: crew.runner.waiting)
        await crew.hub.remove_label(issue, "capuchin", "alice")
        run = await crew.run_of(issue)
        await crew.until(lambda: _forgotten(crew, run))
        crew.runner.go_on.set()
    assert crew.runner.cut == 0


async def test_our_own_taking_off_of_the_label_stops_nothing(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    await crew.label(issue)
    await crew.settle()
    run = await crew.run_of(issue)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert await crew.runs.get_stop(run.id) is None


async def test_stop_without_a_run_says_so(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    await crew.say(issue, "/capuchin stop")
    await crew.settle()
    assert "nothing to stop" in crew.said(issue)[0]


async def test_stop_ends_what_waits_for_the_run_as_well(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    crew.runner.go_on.clear()
    async with crew.at_work():
        await crew.say(issue, "/capuchin plan")
        await crew.until(lambda: crew.runner.waiting)
        await crew.say(issue, "/capuchin fix")
        await crew.until(lambda: len(crew.said(issue)) == 2)
        await crew.say(issue, "/capuchin stop")
    assert (len(crew.runner.jobs), repo.pulls) == (1, [])
    assert (await crew.run_of(issue)).status is RunStatus.STOPPED


async def test_a_stranger_stops_nothing(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    crew.runner.go_on.clear()
    async with crew.at_work():
        await crew.label(issue)
        await crew.until(lambda: crew.runner.waiting)
        await crew.say(issue, "/capuchin stop", by="mallory")
        await crew.until(lambda: len(crew.said(issue)) == 2)
        crew.runner.go_on.set()
    assert (await crew.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_stop_before_the_pull_request_takes_the_branch_back(crew: Crew) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    crew.hub.faults.fail_next("POST", "/repos/acme/shop/pulls", status=None, delay_s=60)
    async with crew.at_work():
        await crew.label(issue)
        await crew.until(lambda: len(repo.list_branches()) == 2)
        await crew.say(issue, "/capuchin stop")
    assert (repo.list_branches(), repo.pulls) == (["main"], [])
    assert (await crew.run_of(issue)).status is RunStatus.STOPPED


async def test_a_stop_after_the_pull_request_is_open_comes_too_late_and_is_told(
    crew: Crew,
) -> None:
    repo = crew.shop()
    issue = await crew.issue(repo)
    path = "/repos/acme/shop/pulls/2/requested_reviewers"
    crew.hub.faults.fail_next("POST", path, status=None, delay_s=6)
    async with crew.at_work():
        await crew.label(issue)
        await crew.until(lambda: repo.pulls)
        await crew.hub.close_issue(issue, "alice")
    run = await crew.run_of(issue)
    assert (run.status, run.pull_request) == (RunStatus.OPENED_PULL_REQUEST, 2)
    assert "I had already opened #2 when the stop request arrived" in crew.said(issue)[0]


async def test_a_stop_is_told_once_github_answers_again(crew: Crew) -> None:
    issue = await crew.issue(crew.shop())
    crew.runner.go_on.clear()
    async with crew.at_work():
        await crew.label(issue)
        await crew.until(lambda: crew.runner.waiting)
        crew.hub.faults.fail_next("PATCH", "/repos/acme/shop/issues/comments/*", times=4)
        run = await crew.run_of(issue)
        await crew.say(issue, "/capuchin stop")
        await crew.until(lambda: _handed_back(crew, run))
        await crew.redis.set(crew.storage.keys.run(run.id), await _at_once(crew, run))
    assert (await crew.run_of(issue)).status is RunStatus.STOPPED
    assert "I stopped as requested (@alice)" in crew.said(issue)[0]


async def _forgotten(crew: Crew, run: Run) -> bool:
    return await crew.runs.get_stop(run.id) is None


async def _handed_back(crew: Crew, run: Run) -> bool:
    kept = await crew.runs.get(run.id)
    return kept is not None and kept.stop is not None and kept.not_before is not None


async def _at_once(crew: Crew, run: Run) -> str:
    kept = await crew.runs.get(run.id)
    assert kept is not None
    return kept.model_copy(update={"not_before": None}).model_dump_json()
