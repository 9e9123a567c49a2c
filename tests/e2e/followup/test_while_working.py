"""What people say and do on a pull request of ours while it is being worked on."""

from __future__ import annotations

import asyncio

from pipeline.data.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.followup.steps import FOLLOW_UP_DIFF, REVIEW_LINE, open_pull, thread_replies
from tests.e2e.harness import BotHarness, StartBot


async def test_stop_ends_a_follow_up_and_status_reports_it(start_bot: StartBot) -> None:
    async with start_bot(review_seconds=0) as bot:
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
        await bot.hub.review(pull, "alice", lines=[("shop.py", 1, "And here?")])
        await bot.settle()
        assert len(bot.runner.tasks[-1].feedback) == 1, "what was stopped is not taken up again"


async def test_status_and_explain_tell_of_the_run_that_opened_it(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    await bot.comment(pull, "/capuchin status")
    await bot.comment(pull, "/capuchin explain")
    await bot.comment(pull, "/capuchin stop")
    await bot.settle()
    stop, status, explained = sorted(bot.comments_of(pull), key=len)
    assert ["@alice" in said for said in (stop, status, explained)] == [False, True, True]
    await bot.hub.commit(repo, "work", {"x.py": "x = 1\n"}, "Work", "alice")
    other = await bot.hub.open_pull(repo, "work", "Work", "alice")
    await bot.comment(other, "/capuchin status")
    await bot.settle()
    assert "@alice" not in bot.comments_of(other)[-1]


async def test_nothing_is_pushed_to_what_was_closed_meanwhile(start_bot: StartBot) -> None:
    async with start_bot(review_seconds=0) as bot:
        _, pull = await open_pull(bot)
        head = pull.head_sha
        bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Done.")

        async def closed() -> None:
            await bot.hub.close_issue(pull, "alice")

        bot.runner.meanwhile = closed
        await bot.hub.review(pull, "alice", lines=REVIEW_LINE)
        await bot.settle()
        assert (len(bot.runner.tasks), pull.head_sha) == (1, head)
