"""How often the bot writes to a repository in an hour, however much it is made to."""

from __future__ import annotations

from bot.data.run import RunStatus
from tests.e2e.harness import BotHarness, StartBot, reactions_of


def writes_of(bot: BotHarness) -> int:
    """How many requests changed something in a repository."""
    return len([e for e in bot.hub.requests if e.method != "GET" and "/repos/" in e.path])


async def test_beyond_the_budget_one_sentence_and_all_the_rest_later(start_bot: StartBot) -> None:
    async with start_bot(hourly_writes=12, hourly_writes_seconds=8) as bot:
        issue = await bot.report_issue(bot.add_repo())
        comments = [await bot.comment(issue, "/capuchin help") for _ in range(6)]
        await bot.label(issue)
        await bot.settle()
        said = bot.comments_of(issue)
        notices = [text for text in said if "12 times" in text]
        assert 1 <= len(notices) <= 4  # an hour each
        assert [reactions_of(comment) for comment in comments] == [["+1"]] * 6
        assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST


async def test_strangers_leave_half_of_the_budget(start_bot: StartBot) -> None:
    async with start_bot(hourly_writes=16, hourly_writes_seconds=20) as bot:
        issue = await bot.report_issue(bot.add_repo())
        for number in range(6):
            await bot.comment(issue, "/capuchin fix", by=f"stranger{number}")
        async with bot.working():
            await bot.until(lambda: len(bot.comments_of(issue)) >= 3)
            assert writes_of(bot) <= 8
            asked = await bot.comment(issue, "/capuchin help")
            await bot.until(lambda: reactions_of(asked) == ["+1"], seconds=16)
        await bot.settle()
        assert len([text for text in bot.comments_of(issue) if "@stranger" in text]) == 6
