"""A run is steered: by what trusted people say, by a higher ceiling, and by further samples."""

import pytest

from bot.comments.status import render_checklist
from bot.data.run import RunStatus
from capuchin_demo.recorded.recording import RecordedAnswer
from pipeline.models.metering import CEILING_KEY, RaisedCeiling
from tests.e2e import shop
from tests.e2e.followup.steps import open_pull
from tests.e2e.harness import BotHarness, StartBot, reactions_of

HINT = "The difference was meant for refunds: keep it out of total()."
SLOW_TEST = RecordedAnswer(call="testing/0", turn=0, reply=shop.SCRIPT, delay=5)


@pytest.mark.parametrize("by", ["alice", "mallory"])
async def test_what_a_trusted_person_says_reaches_what_begins_later(
    start_recorded_bot: StartBot, by: str
) -> None:
    async with start_recorded_bot(shop.answers(SLOW_TEST, shop.RIGHT_AT_ONCE)) as bot:
        issue = await bot.open_issue(bot.add_repo(config=shop.ONE_SAMPLE))

        def calls(stage: str) -> list[str]:
            found = [one for one in bot.llm.requests if one.call.startswith(stage)]
            return ["".join(message.text for message in one.messages) for one in found]

        async with bot.working():
            await bot.until(lambda: calls("testing"))
            await bot.comment(issue, HINT, by)
            await bot.until(lambda: calls("reproduction"))
        assert not any(HINT in said for said in calls("testing"))
        known = [HINT in said for said in calls("editing")]
        assert known
        assert set(known) == {by == "alice"}
        assert len(bot.comments_of(issue)) == 1
        assert reactions_of(issue.comments[-1]) == (["eyes"] if by == "alice" else [])
        run = await bot.run_of(issue)
        shown = await bot.storage.progress.load(run.id)
        assert shown.heard == int(by == "alice")
        assert ("1 comment written" in render_checklist(run, shown)) == (by == "alice")


STOPS = {
    "after a sentence": "Not needed any more, thanks.\n\n/capuchin stop",
    "quote reply": "> total() subtracts\n\n/capuchin stop",
    "a mention": "Thanks! @capuchin stop",
    "bold": "**/capuchin stop**",
}


@pytest.mark.parametrize("text", STOPS.values(), ids=STOPS)
async def test_a_stop_is_never_taken_for_a_hint(bot: BotHarness, text: str) -> None:
    issue = await bot.open_issue(bot.add_repo())
    bot.runner.go_on.clear()
    async with bot.working():
        await bot.until(lambda: bot.runner.waiting)
        await bot.comment(issue, text)
        await bot.until(lambda: bot.runner.cut)
    assert (await bot.run_of(issue)).status is RunStatus.STOPPED
    assert not issue.repo.pulls


@pytest.mark.settings(review_seconds=0)
async def test_a_command_in_a_reviews_own_text_is_carried_out(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)
    await bot.say(pull, "Looks good to me.\n\n/capuchin status")
    review = await bot.receive_review(pull, "alice", "Hm.\n/capuchin status", "COMMENTED")
    assert len(bot.comments_of(pull)) == 2
    assert [one.content for one in review.reactions] == ["+1"]


async def test_further_samples_are_drawn_beside_those_of_a_finished_run(
    one_sample_bot: BotHarness,
) -> None:
    bot = one_sample_bot
    repo, issue = await bot.add_repo_with_issue(config=shop.ONE_SAMPLE, label=True)
    first = await bot.solve(issue)
    asked = len(bot.llm.requests)
    await bot.say(issue, "/capuchin more 1")
    run = await bot.run_of(issue)
    later = {one.call for one in bot.llm.requests[asked:]}
    assert {"testing/1", "editing/1"} <= later
    assert not {"testing/0", "editing/0"} & later
    assert (run.more, run.published_run, run.status) == (2, first.id, RunStatus.OPENED_PULL_REQUEST)
    assert [pull.state for pull in repo.pulls] == ["closed", "open"]
    assert "2 edits" in (repo.pulls[1].body or "")


async def test_nothing_to_continue_and_nothing_to_raise_are_said(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.say(issue, "/capuchin more")
    await bot.say(issue, "/capuchin budget 15")
    more, budget = bot.comments_of(issue)
    assert ("retry" in more, "/capuchin more" in budget) == (True, True)


@pytest.mark.parametrize(
    ("day", "wanted", "raised"),
    [("25", "15", 15.0), ("25", "26", None), ("", "15", 15.0), ("", "21", None)],
)
async def test_a_ceiling_is_raised_within_that_of_a_day(
    bot: BotHarness, day: str, wanted: str, raised: float | None
) -> None:
    config = f"version: 1\nbudget: {{day: {day}}}\n" if day else "version: 1\n"
    issue = await bot.open_issue(bot.add_repo(config=config))
    bot.runner.go_on.clear()
    bot.quiet = False
    async with bot.working(settle=False):
        await bot.until(lambda: bot.runner.waiting)
        command = await bot.comment(issue, f"/capuchin budget ${wanted}")
        await bot.until(lambda: "+1" in reactions_of(command))
        run = await bot.run_of(issue)
        found = await bot.store_of(run).load(CEILING_KEY, RaisedCeiling)
        assert (found and found.dollars) == raised
        lower = await bot.comment(issue, "/capuchin budget 11")
        await bot.until(lambda: "+1" in reactions_of(lower))
        found = await bot.store_of(run).load(CEILING_KEY, RaisedCeiling)
        assert (found and found.dollars) == (raised or 11)


async def test_talk_to_us_is_answered_and_talk_of_strangers_is_not(bot: BotHarness) -> None:
    issue = await bot.report_issue(bot.add_repo())
    await bot.say(issue, "@capuchin could you look at this?", by="mallory")
    assert bot.comments_of(issue) == []
    await bot.say(issue, "@capuchin could you look at this?")
    (said,) = bot.comments_of(issue)
    assert "/capuchin help" in said
    thanks = await bot.say(issue, "@capuchin thanks a lot!")
    assert (len(bot.comments_of(issue)), reactions_of(thanks)) == (1, ["+1"])
