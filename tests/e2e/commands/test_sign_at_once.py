"""People see at once that they were heard, whatever the slots do, and are answered rightly."""

import pytest

from bot.comments.status import render_progress
from bot.data.progress import Progress
from bot.data.run import Mode, now
from tests.e2e.followup.steps import open_pull
from tests.e2e.harness import BotHarness, reactions_of
from tests.support.data.publishing import a_run
from tests.support.hub import ref_of

SOON = 20
"""Seconds: less than positions in the queue are written, and much for a busy machine."""


@pytest.mark.settings(worker_runs=1)
async def test_a_label_is_heard_while_all_slots_are_busy(bot: BotHarness) -> None:
    repo = bot.add_repo()
    first, second = await bot.report_issue(repo), await bot.report_issue(repo)
    async with bot.at_work(bot.label(first)):
        await bot.label(second)
        await bot.until(lambda: bot.comments_of(second), SOON)
        assert "next in the queue" in bot.comments_of(second)[0]
        command = await bot.comment(second, "/capuchin status")
        await bot.until(lambda: "+1" in reactions_of(command), SOON)
        bot.runner.go_on.set()
    assert len(bot.comments_of(second)) == 2


@pytest.mark.parametrize("by", ["alice", "mallory"])
@pytest.mark.settings(review_seconds=3600)
async def test_a_review_is_heard_long_before_it_is_followed(bot: BotHarness, by: str) -> None:
    _, pull = await open_pull(bot)
    bot.quiet = False
    async with bot.working(settle=False):
        review = await bot.hub.review(pull, by, "Say so.", state="CHANGES_REQUESTED")
        await bot.until(lambda: review.reactions or by == "mallory", SOON)
        remark = await bot.hub.review(pull, by, "Fine.", state="COMMENTED")
        await bot.until(lambda: _is_idle(bot), SOON)
    heard = [one.content for one in review.reactions]
    assert heard == (["eyes"] if by == "alice" else [])
    assert remark.reactions == []
    assert bot.runner.tasks == []


async def _is_idle(bot: BotHarness) -> bool:
    return await bot.inbox.count_requests() == 0


async def test_the_issue_itself_cannot_be_judged(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.say(issue, f"/capuchin judge #{issue.number} #7")
    (said,) = bot.comments_of(issue)
    quoted, said = said.split("\n\n", 1)
    assert quoted == f"> `/capuchin judge #{issue.number} #7`"
    assert said.startswith(f"#{issue.number} is this issue.")
    assert await bot.runs.get_latest(ref_of(issue.repo), issue.number) is None


@pytest.mark.parametrize("how", ["merged", "closed"])
async def test_edits_are_not_offered_for_a_pull_request_that_is_over(
    bot: BotHarness, how: str
) -> None:
    repo, pull = await open_pull(bot)
    issue = repo.issues[1]
    pull.draft = False
    end = bot.hub.merge if how == "merged" else bot.hub.close_issue
    await end(pull, "alice")
    await bot.settle()
    runs = len(await bot.storage.run_queries.list_recent())
    for place in (issue, pull):
        await bot.say(place, "/capuchin use B")
        assert f"\n\n#{pull.number} is {how}" in bot.comments_of(place)[-1]
        await bot.say(place, "/capuchin explain")
        assert "/capuchin use" not in bot.comments_of(place)[-1]
    assert len(await bot.storage.run_queries.list_recent()) == runs


def test_a_run_without_asking_back_has_a_checklist_too() -> None:
    progress = Progress(stages={"environment": now()})
    for mode in (Mode.FIX, Mode.AUTO):
        assert "- ⏳ **Install the repository**" in render_progress(a_run(mode=mode), progress)
