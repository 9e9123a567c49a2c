"""Webhook in, comment out: what is fixed already, and what is no fault of the code."""

from __future__ import annotations

import pytest

from bot.data.run import RunStatus
from capuchin_demo.recorded.recording import RecordedAnswer
from tests.e2e import shop
from tests.e2e.harness import StartBot

TILL = "shop/till.py"
FIXED = shop.FILES[TILL].replace("a - b", "a + b")
PASSES = ("It says that the issue is fixed already",)


async def test_an_issue_that_is_fixed_already_is_told_the_commit_and_asked_back(
    start_recorded_bot: StartBot,
) -> None:
    claim = RecordedAnswer(call="testing", when=PASSES, reply="It works.\n\n<fixed/>")
    async with start_recorded_bot(shop.answers(claim)) as bot:
        repo = bot.add_repo()
        fix = await bot.hub.commit(repo, "main", {TILL: FIXED}, "Add in total() (#7)", "alice")
        for number in range(3):
            note: dict[str, str | None] = {"NOTES.md": f"{number}\n"}
            await bot.hub.commit(repo, "main", note, f"Write a note {number}", "alice")
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert (run.status, run.detail) == (RunStatus.NO_FIX, "already fixed")
        (told,) = bot.comments_of(issue)
        assert f"Fixed since: {fix}" in told
        assert "2 of 2 scripts" in told
        assert "Add in total()" in told
        assert repo.pulls == []
        assert {request.call.split("/")[0] for request in bot.llm.requests} == {"testing"}


async def test_the_merged_pull_request_that_fixed_it_is_named(
    start_recorded_bot: StartBot,
) -> None:
    claim = RecordedAnswer(call="testing", when=PASSES, reply="It works.\n\n<fixed/>")
    async with start_recorded_bot(shop.answers(claim)) as bot:
        repo = bot.add_repo()
        await bot.hub.commit(repo, "adding", {TILL: FIXED}, "Add in total()", "alice")
        pull = await bot.hub.open_pull(repo, "adding", "Add in total()", "alice")
        merge = await bot.hub.merge(pull, "bob")
        issue = await bot.open_issue(repo)
        await bot.solve(issue)
        (told,) = bot.comments_of(issue)
        assert f"Fixed since: {merge}, merged with #{pull.number}" in told


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("question", "I changed nothing: this reads as a question"),
        ("elsewhere", "I changed nothing: its cause seems to lie outside this repository."),
    ],
)
async def test_what_no_script_can_show_gets_an_honest_answer(
    start_recorded_bot: StartBot, kind: str, sentence: str
) -> None:
    said = f"<no_issue>\n{kind}\nSee the @docs of total().\n</no_issue>"
    answers = shop.answers(RecordedAnswer(call="testing", reply=said))
    async with start_recorded_bot(answers) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert run.status is RunStatus.NO_FIX
        (told,) = bot.comments_of(issue)
        assert sentence in told
        assert "docs of total()" in told
        assert repo.pulls == []
