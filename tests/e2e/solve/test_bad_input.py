"""What can be wrong with what we are given, and ceilings on money: one clear sentence."""

import pytest

from bot.data.failure import Failure
from bot.data.run import Run, RunStatus
from capuchin_demo.hub.state import Issue, Repo
from capuchin_demo.recorded.recording import RecordedAnswer
from tests.e2e import shop
from tests.e2e.harness import BotHarness, StartBot
from tests.support.data.bombs import commit_bomb
from tests.support.data.local_git import git


def assert_told(repo: Repo, issue: Issue, run: Run, words: str = "") -> None:
    """One comment, with these words; the run's record is kept; nothing half made is left."""
    assert [words in comment.body for comment in issue.comments] == [True]
    assert run.status.final
    assert (repo.list_branches() in ([], ["main"]), repo.pulls) == (True, [])
    assert [reaction.content for reaction in issue.reactions] == ["confused"]
    assert issue.labels == []


@pytest.mark.parametrize("end", ["close_issue", "delete_issue"])
async def test_an_issue_that_is_gone_before_the_run(bot: BotHarness, end: str) -> None:
    repo, issue = await bot.add_repo_with_issue(label=True)
    await getattr(bot.hub, end)(issue, "alice")
    run = await bot.solve(issue)
    assert run.status is RunStatus.STOPPED
    assert (repo.list_branches(), repo.pulls) == (["main"], [])
    assert end == "close_issue" or issue.comments == []


async def test_a_repository_that_unpacks_without_end(recorded_bot: BotHarness) -> None:
    repo, issue = await recorded_bot.add_repo_with_issue()
    bomb = commit_bomb(repo.git.path, widths=[1000, 1000, 1000, 1000])
    git(repo.git.path, "update-ref", "refs/heads/main", bomb)
    await recorded_bot.label(issue)
    run = await recorded_bot.solve(issue)
    assert run.failure is Failure.REPOSITORY_TOO_LARGE
    assert_told(repo, issue, run, "300,000")


async def test_a_repository_without_code(recorded_bot: BotHarness) -> None:
    repo = recorded_bot.add_repo(files={"README.md": "Only words.\n"})
    issue = await recorded_bot.open_issue(repo)
    run = await recorded_bot.solve(issue)
    assert run.no_fix == "no source files"
    assert_told(repo, issue, run, "no code")
    assert recorded_bot.llm.requests == []


async def test_a_model_that_does_not_take_our_key(start_recorded_bot: StartBot) -> None:
    async with start_recorded_bot(shop.answers(RecordedAnswer(call="*", status=401))) as bot:
        repo, issue = await bot.add_repo_with_issue(label=True)
        run = await bot.solve(issue)
        assert run.failure is Failure.MODEL_MISCONFIGURED
        assert_told(repo, issue, run, "key")


async def test_a_model_that_cannot_be_reached(start_recorded_bot: StartBot) -> None:
    nowhere = "openai:m@http://127.0.0.1:9/v1"
    async with start_recorded_bot(solver_model=nowhere, patience_seconds=0) as bot:
        repo, issue = await bot.add_repo_with_issue(label=True)
        run = await bot.solve(issue)
        assert run.failure is Failure.MODEL_UNAVAILABLE
        assert_told(repo, issue, run)


async def test_docker_is_down(
    start_recorded_bot: StartBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_recorded_bot(patience_seconds=0) as bot:
        repo, issue = await bot.add_repo_with_issue(label=True)
        with monkeypatch.context() as patch:
            patch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
            run = await bot.solve(issue)
        assert run.failure is Failure.SANDBOX_UNAVAILABLE
        assert_told(repo, issue, run)


@pytest.mark.parametrize(
    "path", ["../../etc/cron.d/x", "/etc/x", ".git/hooks/post-commit", ".github/workflows/ci.yml"]
)
async def test_an_edit_that_leaves_the_repository(start_recorded_bot: StartBot, path: str) -> None:
    escape = RecordedAnswer(call="editing", reply=shop.edit("x = 1", path=path, before=""))
    async with start_recorded_bot(shop.answers(escape)) as bot:
        repo, issue = await bot.add_repo_with_issue(label=True)
        run = await bot.solve(issue)
        assert (run.status, run.no_fix) == (RunStatus.NO_FIX, "no edit")
        assert_told(repo, issue, run)


async def test_the_same_label_delivered_twice_makes_one_run(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue(label=True)
    await bot.hub.redeliver(bot.hub.deliveries[-1])
    await bot.settle()
    await bot.hub.redeliver(bot.hub.deliveries[1])
    await bot.settle()
    assert len(repo.pulls) == 1
    assert len(issue.comments) == 1


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
    assert (run.status, run.no_fix) == (RunStatus.NO_FIX, "out of budget"), run
    (comment,) = issue.comments
    assert ceiling in comment.body, comment.body
    assert f"{spent} is spent." in comment.body, comment.body
    assert "limit" in comment.body
    assert (f"${run.dollars:.2f} at list prices" in comment.body) is (run.dollars > 0)
    assert repo.list_branches() == ["main"]
    assert (repo.pulls, issue.labels) == ([], [])
    assert [reaction.content for reaction in issue.reactions] == ["confused"]


@pytest.mark.parametrize(
    ("budget", "ceiling"),
    [("budget: {run: 0.15}", "The limit for one run"), ("budget: {day: 0.15}", DAY)],
)
async def test_a_run_that_reaches_a_ceiling_ends_and_says_what_it_spent(
    start_recorded_bot: StartBot, budget: str, ceiling: str
) -> None:
    async with start_recorded_bot(DEAR) as bot:
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
        assert (run.status, run.no_fix) == (RunStatus.NO_FIX, "out of budget"), run
        assert 0 < run.dollars <= 0.25 - first.dollars
        assert len(repo.pulls) == 1
        assert [pull for pull in other.pulls if pull is not repo.pulls[0]] == []
