"""Ceilings on money, from the signed webhook: what a run that reaches one says and leaves."""

from __future__ import annotations

import pytest

from bot.data.run import Run, RunStatus
from capuchin_demo.hub.state import Issue, Repo
from capuchin_demo.recorded.recording import RecordedAnswer
from tests.e2e import shop
from tests.e2e.harness import StartBot

LONG = f"Let me think. {'so ' * 8_000}\n"
"""Some 6000 tokens: 9 cents at the price of the recorded model, of which no call takes two."""
DAY = "Today's limit for this repository"
OPERATOR = "The operator's limit for today"
DEAR = shop.answers(RecordedAnswer(call="testing", turn=0, reply=LONG + shop.SCRIPT))


def files(budget: str = "") -> dict[str, str]:
    """The shop, with one sample; its run costs more than a dime and less than two."""
    return {**shop.FILES, ".github/capuchin.yml": f"{shop.ONE_SAMPLE}{budget}\n"}


def assert_ended(repo: Repo, issue: Issue, run: Run, ceiling: str, spent: str) -> None:
    """One comment: whose ceiling, what was spent of it and by this run; nothing half made."""
    assert (run.status, run.detail) == (RunStatus.NO_FIX, "out of budget"), run
    (comment,) = issue.comments
    assert ceiling in comment.body, comment.body
    assert f"{spent} is spent." in comment.body, comment.body
    assert "limit" in comment.body
    assert (f"${run.dollars:.2f} at list prices" in comment.body) is (run.dollars > 0)
    assert repo.list_branches() == ["main"]
    assert (repo.pulls, issue.labels) == ([], [])
    assert [reaction.content for reaction in issue.reactions] == ["confused"]


@pytest.mark.parametrize(
    ("settings", "budget", "ceiling"),
    [
        ({}, "budget: {run: 0.15}", "The limit for one run"),
        ({"budget_repository_day": 0.15}, "budget: {day: 5}", DAY),
    ],
)
async def test_a_run_that_reaches_a_ceiling_ends_and_says_what_it_spent(
    start_recorded_bot: StartBot, settings: dict[str, float], budget: str, ceiling: str
) -> None:
    async with start_recorded_bot(DEAR, **settings) as bot:
        repo = bot.add_repo(files=files(budget))
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert 0.08 < run.dollars <= 0.15
        assert_ended(repo, issue, run, ceiling, f"${run.dollars:.2f} of $0.15")
        assert bot.llm.requests[-1].call == "testing/0", "nothing is asked after that"


async def test_a_run_that_reaches_its_ceiling_opens_the_edit_it_has_if_that_is_good_enough(
    start_recorded_bot: StartBot,
) -> None:
    approved = RecordedAnswer(call="editing", turn=1, reply=LONG + shop.APPROVED)
    right = RecordedAnswer(call="editing", turn=0, reply=shop.RIGHT)
    async with start_recorded_bot(shop.answers(right, approved)) as bot:
        repo = bot.add_repo(files=files("budget: {run: 0.2}"))
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        _, body = bot.only_pull_request(repo)
        assert "of $0.20" in body
        assert "reproduction" not in [asked.call for asked in bot.llm.requests]


@pytest.mark.parametrize(
    ("settings", "budget", "ceiling", "second"),
    [
        ({}, "budget: {day: 0.25}", DAY, "acme/shop"),
        ({"budget_day": 0.25}, "", OPERATOR, "acme/other"),
    ],
)
async def test_what_earlier_runs_of_the_day_spent_counts_for_the_days_ceilings(
    start_recorded_bot: StartBot, settings: dict[str, float], budget: str, ceiling: str, second: str
) -> None:
    right = RecordedAnswer(call="editing", turn=0, reply=shop.RIGHT)
    async with start_recorded_bot(shop.answers(right, *DEAR.answers[:1]), **settings) as bot:
        repo = bot.add_repo(files=files(budget))
        first = await bot.solve(await bot.open_issue(repo))
        assert first.status is RunStatus.OPENED_PULL_REQUEST, first
        other = repo if second == "acme/shop" else bot.add_repo(second, files(budget))
        issue = await bot.open_issue(other, "Sums are wrong")
        run = await bot.solve(issue)
        spent = f"${first.dollars + run.dollars:.2f} of $0.25"
        assert ceiling in issue.comments[0].body, issue.comments[0].body
        assert f"{spent} is spent." in issue.comments[0].body, issue.comments[0].body
        assert (run.status, run.detail) == (RunStatus.NO_FIX, "out of budget"), run
        assert 0 < run.dollars <= 0.25 - first.dollars
        assert len(repo.pulls) == 1
        assert [pull for pull in other.pulls if pull is not repo.pulls[0]] == []
