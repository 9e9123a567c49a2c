"""Each thing that can be wrong with what we are given: one clear sentence, no half-made branch."""

from __future__ import annotations

import pytest

from bot.data.run import Failure, Run, RunStatus
from capuchin_demo.hub.state import Issue, Repo
from capuchin_demo.recorded.recording import RecordedAnswer
from tests.e2e import shop
from tests.e2e.harness import BotHarness, StartBot
from tests.support.data.bombs import commit_bomb, git
from tests.support.hub import ref_of


def assert_told(repo: Repo, issue: Issue, run: Run, words: str = "") -> None:
    """One comment, with these words; the run's record is kept; nothing half made is left."""
    assert [words in comment.body for comment in issue.comments] == [True]
    assert run.status.final
    assert (repo.list_branches() in ([], ["main"]), repo.pulls) == (True, [])
    assert [reaction.content for reaction in issue.reactions] == ["confused"]
    assert issue.labels == []


async def test_an_issue_closed_before_the_run(recorded_bot: BotHarness) -> None:
    repo = recorded_bot.add_repo()
    issue = await recorded_bot.open_issue(repo)
    await recorded_bot.hub.close_issue(issue, "alice")
    run = await recorded_bot.solve(issue)
    assert run.status is RunStatus.STOPPED
    assert (repo.list_branches(), repo.pulls) == (["main"], [])


async def test_an_issue_deleted_before_the_run(recorded_bot: BotHarness) -> None:
    repo = recorded_bot.add_repo()
    issue = await recorded_bot.open_issue(repo)
    await recorded_bot.hub.delete_issue(issue, "alice")
    run = await recorded_bot.solve(issue)
    assert run.status is RunStatus.STOPPED
    assert (repo.list_branches(), repo.pulls, issue.comments) == (["main"], [], [])


async def test_a_label_by_someone_who_may_not_write(recorded_bot: BotHarness) -> None:
    repo = recorded_bot.add_repo()
    repo.grant("tina", "triage")
    issue = await recorded_bot.open_issue(repo, label=False)
    for _ in range(2):
        await recorded_bot.label(issue, by="tina")
        run = await recorded_bot.solve(issue)
        assert run.status is RunStatus.REFUSED
    assert [comment.body.partition(".")[0] for comment in issue.comments] == ["Thank you, @tina"]
    assert (repo.list_branches(), issue.reactions, issue.labels) == (["main"], [], [])


async def test_a_repository_that_is_gone(recorded_bot: BotHarness) -> None:
    repo = recorded_bot.add_repo()
    ref = ref_of(repo)
    issue = await recorded_bot.open_issue(repo)
    await recorded_bot.hub.delete_repo(repo)
    await recorded_bot.settle()
    run = await recorded_bot.run_at(ref, issue.number)
    assert (run.status, run.failure) == (RunStatus.FAILED, Failure.REPOSITORY_GONE)
    assert issue.comments == []


async def test_an_empty_repository(recorded_bot: BotHarness) -> None:
    repo = recorded_bot.add_repo(files={})
    issue = await recorded_bot.open_issue(repo)
    run = await recorded_bot.solve(issue)
    assert run.failure is Failure.REPOSITORY_EMPTY
    assert_told(repo, issue, run)


async def test_a_repository_that_unpacks_without_end(recorded_bot: BotHarness) -> None:
    repo = recorded_bot.add_repo()
    issue = await recorded_bot.open_issue(repo, label=False)
    bomb = commit_bomb(repo.git.path, widths=[1000, 1000, 1000, 1000])
    git(repo.git.path, "update-ref", "refs/heads/main", bomb)
    await recorded_bot.label(issue)
    run = await recorded_bot.solve(issue)
    assert run.failure is Failure.REPOSITORY_TOO_LARGE
    assert_told(repo, issue, run, "300,000")


async def test_a_repository_without_python(recorded_bot: BotHarness) -> None:
    repo = recorded_bot.add_repo(files={"index.js": "exports.total = (a, b) => a - b\n"})
    issue = await recorded_bot.open_issue(repo)
    run = await recorded_bot.solve(issue)
    assert run.detail == "no source files"
    assert_told(repo, issue, run, "Python")
    assert recorded_bot.llm.requests == []


async def test_a_model_that_is_overloaded_for_a_moment(start_recorded_bot: StartBot) -> None:
    overloaded = RecordedAnswer(
        call="ranking/0", status=529, times=3, reply="<ranking>\nx.py\n</ranking>"
    )
    async with start_recorded_bot(shop.answers(overloaded, shop.RIGHT_AT_ONCE)) as bot:
        issue = await bot.open_issue(bot.add_repo(config=shop.ONE_SAMPLE))
        run = await bot.solve(issue)
        assert run.status is RunStatus.OPENED_PULL_REQUEST


async def test_a_model_that_does_not_take_our_key(start_recorded_bot: StartBot) -> None:
    async with start_recorded_bot(shop.answers(RecordedAnswer(call="*", status=401))) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert run.failure is Failure.MODEL_MISCONFIGURED
        assert_told(repo, issue, run, "key")


async def test_a_model_that_cannot_be_reached(start_recorded_bot: StartBot) -> None:
    nowhere = "openai:m@http://127.0.0.1:9/v1"
    async with start_recorded_bot(solver_model=nowhere, patience_seconds=0) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert run.failure is Failure.MODEL_UNAVAILABLE
        assert_told(repo, issue, run)


async def test_a_model_that_answers_nonsense_to_the_end(start_recorded_bot: StartBot) -> None:
    nonsense = RecordedAnswer(call="testing", reply="Colourless green ideas sleep furiously.")
    async with start_recorded_bot(shop.answers(nonsense)) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert (run.status, run.detail) == (RunStatus.NO_FIX, "no reproduction")
        assert_told(repo, issue, run)


async def test_docker_is_down(start_recorded_bot: StartBot) -> None:
    async with start_recorded_bot(docker_url="tcp://127.0.0.1:9", patience_seconds=0) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert run.failure is Failure.SANDBOX_UNAVAILABLE
        assert_told(repo, issue, run)


@pytest.mark.parametrize(
    "path", ["../../etc/cron.d/x", "/etc/x", ".git/hooks/post-commit", ".github/workflows/ci.yml"]
)
async def test_an_edit_that_leaves_the_repository(start_recorded_bot: StartBot, path: str) -> None:
    escape = RecordedAnswer(call="editing", reply=shop.edit("x = 1", path=path, before=""))
    async with start_recorded_bot(shop.answers(escape)) as bot:
        repo = bot.add_repo()
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert (run.status, run.detail) == (RunStatus.NO_FIX, "no edit")
        assert_told(repo, issue, run)


async def test_a_configuration_with_a_mistake(recorded_bot: BotHarness) -> None:
    repo = recorded_bot.add_repo(
        files={**shop.FILES, ".github/capuchin.yml": "version: 1\nsample: 2\n"}
    )
    issue = await recorded_bot.open_issue(repo)
    run = await recorded_bot.solve(issue)
    assert run.failure is Failure.CONFIG_INVALID
    assert_told(repo, issue, run, "`.github/capuchin.yml`, line 2")


async def test_the_same_label_delivered_twice_makes_one_run(one_sample_bot: BotHarness) -> None:
    repo = one_sample_bot.add_repo(config=shop.ONE_SAMPLE)
    issue = await one_sample_bot.open_issue(repo)
    await one_sample_bot.hub.redeliver(one_sample_bot.hub.deliveries[-1])
    await one_sample_bot.settle()
    await one_sample_bot.hub.redeliver(one_sample_bot.hub.deliveries[1])
    await one_sample_bot.settle()
    assert len(repo.pulls) == 1
    assert len(issue.comments) == 1
