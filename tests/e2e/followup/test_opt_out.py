"""What people say and do on our pull requests meanwhile, and the label `capuchin:disabled`."""

import asyncio
from datetime import timedelta

import pytest

from bot.data.run import RunStatus
from pipeline.data.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.followup.steps import FOLLOW_UP_DIFF, REVIEW_LINE, open_pull, thread_replies
from tests.e2e.harness import BotHarness
from tests.support.hub import ref_of

pytestmark = pytest.mark.settings(review_seconds=0)


@pytest.mark.parametrize("how", ["label", "command"])
async def test_an_issue_that_wears_it_is_left_alone_until_it_is_taken_off(
    bot: BotHarness, how: str
) -> None:
    repo, issue = await bot.add_repo_with_issue()
    await bot.label(issue, suffix=":Disabled")
    await (bot.label(issue) if how == "label" else bot.comment(issue, "/capuchin fix anyway"))
    await bot.settle()
    (said,) = bot.comments_of(issue)
    assert "`capuchin:disabled`" in said
    assert (bot.runner.jobs, repo.pulls) == ([], [])
    assert issue.labels == ["capuchin:Disabled"]
    await bot.hub.remove_label(issue, "capuchin:Disabled", "alice")
    await bot.ask_by_label(issue)
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_pull_request_that_wears_it_is_neither_followed_nor_closed(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    await bot.hub.add_label(pull, "capuchin:disabled", "alice")
    pull.updated_at -= timedelta(days=40)
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    assert (bot.runner.tasks, thread_replies(bot, pull), pull.state) == ([], [], "open")
    await bot.hub.remove_label(pull, "capuchin:disabled", "alice")
    await bot.receive_review(pull, "alice", lines=[("shop.py", 1, "And here?")])
    assert len(bot.runner.tasks[0].feedback) == 2


@pytest.mark.parametrize("heard", ["webhook", "sweep"])
@pytest.mark.settings(missed_seconds=0.2)
async def test_put_on_during_a_run_it_stops_that(bot: BotHarness, heard: str) -> None:
    repo, issue = await bot.add_repo_with_issue()
    async with bot.at_work(bot.label(issue), find_missed=heard == "sweep"):
        if heard == "webhook":
            await bot.label(issue, suffix=":Disabled")
        else:
            async with bot.without_webhooks():
                await bot.label(issue, suffix=":Disabled")
        await bot.until(lambda: bot.runner.cut)
    run = await bot.run_of(issue)
    assert (run.status, run.dollars) == (RunStatus.STOPPED, 0.25)
    (said,) = bot.comments_of(issue)
    assert ("`capuchin:disabled`" in said.lower(), "$0.25" in said) == (True, True)
    assert ("@alice" in said) is (heard == "webhook")
    assert (repo.list_branches(), repo.pulls) == (["main"], [])
    assert [label.lower() for label in issue.labels] == ["capuchin:disabled"]


async def test_one_that_is_off_again_stops_nothing(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.label(issue, suffix=":disabled")
    put_on = bot.hub.deliveries[-1]
    await bot.hub.remove_label(issue, "capuchin:disabled", "alice")
    await bot.label(issue)
    await bot.hub.redeliver(put_on)
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_put_on_before_the_first_start_it_is_reported(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.label(issue)
    await bot.ask_by_label(issue, suffix=":disabled")
    (said,) = bot.comments_of(issue)
    assert "`capuchin:disabled`" in said
    assert (bot.runner.jobs, issue.labels) == ([], ["capuchin:disabled"])


async def test_put_on_our_pull_request_it_stops_a_follow_up(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    head = pull.head_sha
    bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Done.")

    async def kept_away() -> None:
        await bot.hub.add_label(pull, "capuchin:disabled", "alice")
        await asyncio.Event().wait()  # a call of the model, under way

    bot.runner.meanwhile = kept_away
    async with bot.working():
        await bot.hub.review(pull, "alice", lines=REVIEW_LINE)
    (said,) = bot.comments_of(pull)
    assert "`capuchin:disabled`" in said
    assert (pull.head_sha, thread_replies(bot, pull)) == (head, [])
    assert len(bot.runner.tasks) == 1


@pytest.mark.settings(review_seconds=60)
async def test_what_only_waits_on_our_pull_request_is_stopped_without_a_word(
    bot: BotHarness,
) -> None:
    _, pull = await open_pull(bot)
    async with bot.working():
        await bot.hub.review(pull, "alice", lines=REVIEW_LINE)
        await bot.until(lambda: bot.runs.get_current(ref_of(pull.repo), pull.number))
        await bot.hub.add_label(pull, "capuchin:disabled", "alice")
        await bot.until(lambda: bot.hasten(pull))
    assert (bot.runner.tasks, bot.comments_of(pull), thread_replies(bot, pull)) == ([], [], [])


async def test_stop_ends_a_follow_up_and_status_reports_it(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    head = pull.head_sha
    bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Done.")

    async def told_to_stop() -> None:
        await bot.comment(pull, "/capuchin status")
        await bot.until(lambda: bot.comments_of(pull))
        await bot.comment(pull, "/capuchin stop")
        await asyncio.Event().wait()  # a call of the model, under way

    bot.runner.meanwhile = told_to_stop
    async with bot.working():
        await bot.hub.review(pull, "alice", lines=REVIEW_LINE)
    status, stopped = bot.comments_of(pull)
    assert "@alice" in status
    assert "@alice" in stopped
    assert (pull.head_sha, thread_replies(bot, pull)) == (head, [])
    bot.runner.meanwhile = None
    await bot.receive_review(pull, "alice", lines=[("shop.py", 1, "And here?")])
    assert len(bot.runner.tasks[-1].feedback) == 1, "what was stopped is not taken up again"


async def test_status_and_explain_tell_of_the_run_that_opened_it(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    await bot.comment(pull, "/capuchin status")
    await bot.comment(pull, "/capuchin explain")
    await bot.say(pull, "/capuchin stop")
    stop, status, explained = sorted(bot.comments_of(pull), key=len)
    assert ["@alice" in said for said in (stop, status, explained)] == [False, True, True]
    await bot.hub.commit(repo, "work", {"x.py": "x = 1\n"}, "Work", "alice")
    other = await bot.hub.open_pull(repo, "work", "Work", "alice")
    await bot.say(other, "/capuchin status")
    assert "@alice" not in bot.comments_of(other)[-1]


async def test_nothing_is_pushed_to_what_was_closed_meanwhile(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    head = pull.head_sha
    bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Done.")

    async def closed() -> None:
        await bot.hub.close_issue(pull, "alice")

    bot.runner.meanwhile = closed
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    assert (len(bot.runner.tasks), pull.head_sha) == (1, head)
