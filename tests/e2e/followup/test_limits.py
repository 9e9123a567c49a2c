"""Follow-ups under the same limits as runs of issues, and what people see of them meanwhile."""

import pytest

from bot.comments.followup import CHECK_NAME
from bot.data.run import now
from capuchin_demo.hub.state import CheckRun
from pipeline.data.types import Patch
from pipeline.workflows.revise import Revision
from sandbox.errors import SandboxUnavailable
from sandbox.frozen import replace
from tests.e2e.followup.steps import FOLLOW_UP_DIFF, REVIEW_LINE, open_pull, thread_replies
from tests.e2e.harness import BotHarness, StartBot
from tests.support.hub import ref_of

pytestmark = pytest.mark.settings(review_seconds=0)

SPENT = Revision(patch=None, answer="", spent_ceiling="run")


@pytest.mark.settings(review_seconds=0.3)
async def test_each_thread_is_told_what_was_done_about_it(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    repo.grant("tina", "write")
    said = ("It says why.", "It stays.", "I kept the name.", "Yes.")
    bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="all", replies=said)
    lines = [("shop.py", 1, "Why?"), ("shop.py", 2, "Inline it?")]
    await bot.hub.review(pull, "alice", "Rename it.", "CHANGES_REQUESTED", lines)
    await bot.hub.review(pull, "tina", "Sure?", "CHANGES_REQUESTED")
    await bot.receive_review(pull, "mallory", "No.", "CHANGES_REQUESTED")
    (task,) = bot.runner.tasks
    order = [text.partition(": ")[2] for text in task.feedback]
    to = dict(zip(order, said, strict=True))
    here = f"Done in {pull.head_sha[:7]}."
    threads = [text.split("\n\n<!--")[0] for _, text in thread_replies(bot, pull)]
    assert threads == [f"{here} {to['Why?']}", f"{here} {to['Inline it?']}"]
    (rest,) = bot.comments_of(pull)
    assert rest.startswith(
        f"{here}\n\n@alice: {to['Rename it.']}\n\n@tina: {to['Sure?']}\n\n<sub>Not read: 1 "
    )


@pytest.mark.settings(review_seconds=0, quota_person=1)
async def test_what_is_over_a_quota_is_reported_once_and_followed_the_next_day(
    bot: BotHarness,
) -> None:
    await check_that_feedback_over_the_quota_waits(bot)


async def check_that_feedback_over_the_quota_waits(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    for _ in range(2):
        await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    assert (bot.runner.tasks, thread_replies(bot, pull)) == ([], [])
    (said,) = bot.comments_of(pull)
    assert "@alice" in said
    assert "tomorrow" in said
    ref, day = ref_of(pull.repo), now().date().isoformat()
    await bot.redis.delete(bot.storage.keys.quota(f"{ref.installation}@alice", day))  # midnight
    await bot.receive_review(pull, "alice", lines=[("shop.py", 1, "And here?")])
    (task,) = bot.runner.tasks
    assert len(task.feedback) == 3


async def test_the_limit_of_one_run_is_reported_and_what_to_do(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    bot.runner.revised = SPENT
    await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    ((_, said),) = thread_replies(bot, pull)
    assert "limit" in said
    assert "`/capuchin fix`" in said


async def test_after_the_days_limit_a_review_waits_for_the_next_day(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    bot.runner.revised = replace(SPENT, spent_ceiling="installation")
    for _ in range(2):
        await bot.receive_review(pull, "alice", lines=REVIEW_LINE)
    assert len(bot.runner.tasks) == 1
    (said,) = bot.comments_of(pull)
    assert "limit" in said
    records = bot.storage.pulls
    before = {"paused_on": "2020-01-01"}  # the day is over
    await records.change(ref_of(pull.repo), pull.number, before, due_in=60)
    bot.runner.revised = Revision(patch=None, answer="It is so.")
    await bot.receive_review(pull, "alice", lines=[("shop.py", 1, "And?")])
    assert len(bot.runner.tasks[-1].feedback) == 3


async def test_the_check_is_in_progress_while_the_test_is_run(bot: BotHarness) -> None:
    seen: list[tuple[str, str | None]] = []
    repo = bot.add_repo()

    def look() -> None:
        (run,) = repo.check_runs
        seen.append((run.status, run.title))

    bot.runner.verifying = look
    await bot.ask_by_label(await bot.report_issue(repo))
    assert [status for status, _ in seen] == ["in_progress"]
    (run,) = repo.check_runs
    assert (run.name, run.status, run.conclusion) == (CHECK_NAME, "completed", "success")


@pytest.mark.parametrize("how", ["gives up", "is pushed to"])
async def test_no_check_stays_in_progress(start_bot: StartBot, how: str) -> None:
    async with start_bot(patience_seconds=0 if how == "gives up" else 60) as bot:
        repo = bot.add_repo()
        down = SandboxUnavailable("down")

        def broken() -> None:
            if len(bot.runner.asked) == 1:
                raise down

        bot.runner.verifying = broken
        await bot.label(await bot.report_issue(repo))
        async with bot.working():
            await bot.until(lambda: bot.runner.asked)
            (pull,) = repo.pulls
            if how == "is pushed to":
                files: dict[str, str | None] = {"x.py": "x = 2\n"}
                await bot.hub.commit(repo, pull.head_ref, files, "Mine", "alice")
            await bot.until(lambda: bot.hasten(pull))
        assert [run.status for run in repo.check_runs if run.status != "completed"] == []
        first: CheckRun = repo.check_runs[0]
        assert (first.conclusion, first.title) == ("cancelled", "Not finished")


async def test_two_runs_that_note_something_at_once_lose_nothing(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    ref, records = ref_of(pull.repo), bot.storage.pulls
    await records.change(ref, pull.number, {"handed_over": True}, due_in=60)
    await records.change(ref, pull.number, {"verified": "x"}, due_in=60)
    kept = await records.get(ref, pull.number)
    assert kept is not None
    assert (kept.handed_over, kept.verified) == (True, "x")
    assert await records.change(ref, 99, {"verified": "x"}, due_in=60) is None
