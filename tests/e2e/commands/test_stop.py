"""Stopping a run: by whom, when, how fast, and what is left behind."""

import pytest

from bot.data.run import Run, RunStatus
from pipeline.store import encode_record
from sandbox.frozen import replace
from tests.e2e.harness import BotHarness
from tests.support.github.faults import Faults

pytestmark = pytest.mark.usefixtures("check_keys_declared")


@pytest.mark.spine
@pytest.mark.parametrize("how", ["label", "close", "command", "delete", "transfer"])
async def test_a_run_is_stopped_while_it_is_worked_on(bot: BotHarness, how: str) -> None:
    repo = bot.add_repo()
    other = bot.add_repo("acme/other")
    issue = await bot.report_issue(repo)
    async with bot.at_work(bot.label(issue)):
        match how:
            case "label":
                await bot.hub.remove_label(issue, "capuchin", "alice")
            case "close":
                await bot.hub.close_issue(issue, "bob")
            case "command":
                await bot.comment(issue, "/capuchin stop")
            case "delete":
                await bot.hub.delete_issue(issue, "alice")
            case _:
                await bot.hub.transfer_issue(issue, other, "alice")
        await bot.until(lambda: bot.runner.cut)
    run = await bot.run_of(issue)
    assert (run.status, run.dollars) == (RunStatus.STOPPED, 0.25)
    assert (repo.list_branches(), repo.pulls) == (["main"], [])
    if how in ("label", "close", "command"):
        assert "$0.25" in bot.comments_of(issue)[0]
        assert "capuchin" not in issue.labels


async def test_a_worker_stops_what_another_process_heard_of(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    async with bot.at_work(bot.label(issue)):
        second = bot.again()
        await bot.comment(issue, "/capuchin stop")
        async with second.working():
            await bot.until(lambda: bot.runner.cut)
    assert (await bot.run_of(issue)).status is RunStatus.STOPPED


async def test_a_label_taken_off_before_the_first_start_means_no_run_and_no_word(
    bot: BotHarness,
) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.label(issue)
    await bot.hub.remove_label(issue, "capuchin", "alice")
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.STOPPED
    assert (bot.runner.jobs, bot.comments_of(issue), issue.reactions) == ([], [], [])


async def test_that_holds_even_if_only_the_first_webhook_came(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.label(issue)
    url, bot.hub.webhook_url = bot.hub.webhook_url, None
    await bot.hub.remove_label(issue, "capuchin", "alice")
    bot.hub.deliveries.clear()
    bot.hub.webhook_url = url
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.STOPPED
    assert (bot.runner.jobs, bot.comments_of(issue)) == ([], [])


async def test_webhooks_out_of_order_stop_nothing(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.label(issue)
    await bot.hub.remove_label(issue, "capuchin", "alice")
    taken_off = bot.hub.deliveries[-1]
    await bot.settle()
    await bot.label(issue)
    await bot.hub.redeliver(taken_off)
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_run_that_a_comment_began_needs_no_label(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.hub.add_label(issue, "capuchin", bot.hub.bot.login)
    async with bot.at_work(bot.comment(issue, "/capuchin fix")):
        await bot.hub.remove_label(issue, "capuchin", "alice")
        run = await bot.run_of(issue)
        await bot.until(lambda: _forgotten(bot, run))
        bot.runner.go_on.set()
    assert bot.runner.cut == 0


async def test_our_own_taking_off_of_the_label_stops_nothing(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.ask_by_label(issue)
    run = await bot.run_of(issue)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert await bot.runs.get_stop(run.id) is None


async def test_stop_without_a_run_says_so(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.say(issue, "/capuchin stop")
    assert "nothing to stop" in bot.comments_of(issue)[0]


async def test_stop_ends_what_waits_for_the_run_as_well(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    async with bot.at_work(bot.comment(issue, "/capuchin plan")):
        await bot.comment(issue, "/capuchin fix")
        await bot.until(lambda: len(bot.comments_of(issue)) == 2)
        await bot.comment(issue, "/capuchin stop")
    assert (len(bot.runner.jobs), repo.pulls) == (1, [])
    assert (await bot.run_of(issue)).status is RunStatus.STOPPED


async def test_a_stranger_stops_nothing(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    async with bot.at_work(bot.label(issue)):
        await bot.comment(issue, "/capuchin stop", by="mallory")
        await bot.until(lambda: len(bot.comments_of(issue)) == 2)
        bot.runner.go_on.set()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


@pytest.mark.spine
async def test_a_stop_before_the_pull_request_takes_the_branch_back(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    bot.hub.faults.fail_next("POST", "/repos/acme/shop/pulls", status=None, delay_s=3_600)
    async with bot.working():
        await bot.label(issue)
        await bot.until(lambda: len(repo.list_branches()) == 2)
        await bot.comment(issue, "/capuchin stop")
    assert (repo.list_branches(), repo.pulls) == (["main"], [])
    assert (await bot.run_of(issue)).status is RunStatus.STOPPED


async def test_a_stop_after_the_pull_request_is_open_comes_too_late_and_is_reported(
    bot: BotHarness,
) -> None:
    repo, issue = await bot.add_repo_with_issue()
    path = "/repos/acme/shop/pulls/2/requested_reviewers"
    bot.hub.faults.fail_next("POST", path, status=None, delay_s=3_600)
    async with bot.working():
        await bot.label(issue)
        await bot.until(lambda: repo.pulls)
        await bot.hub.close_issue(issue, "alice")
    run = await bot.run_of(issue)
    assert (run.status, run.pull_request) == (RunStatus.OPENED_PULL_REQUEST, 2)
    assert "#2" in bot.comments_of(issue)[0]


async def test_a_stop_is_reported_once_github_answers_again(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    async with bot.at_work(bot.label(issue)):
        # More than one write tries: the status is written at the same time.
        bot.hub.faults.fail_next("PATCH", "/repos/acme/shop/issues/comments/*", times=100)
        run = await bot.run_of(issue)
        await bot.comment(issue, "/capuchin stop")
        await bot.until(lambda: _handed_back(bot, run))
        bot.hub.faults = Faults()
        await bot.redis.set(bot.storage.keys.run(run.id), await _at_once(bot, run))
    assert (await bot.run_of(issue)).status is RunStatus.STOPPED
    assert "(@alice)" in bot.comments_of(issue)[0]


async def _forgotten(bot: BotHarness, run: Run) -> bool:
    return await bot.runs.get_stop(run.id) is None


async def _handed_back(bot: BotHarness, run: Run) -> bool:
    kept = await bot.runs.get(run.id)
    return kept is not None and kept.stop is not None and kept.not_before is not None


async def _at_once(bot: BotHarness, run: Run) -> bytes:
    kept = await bot.runs.get(run.id)
    assert kept is not None
    return encode_record(replace(kept, not_before=None))
