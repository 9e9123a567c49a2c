"""A repository gets another name or owner: its pull requests, runs and limits stay."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from bot.data.run import RunStatus, now
from capuchin_demo.hub.state import Repo
from pipeline.data.types import Patch
from pipeline.workflows.revise import Revision
from tests.e2e.followup.steps import FOLLOW_UP_DIFF, open_pull
from tests.e2e.harness import BotHarness
from tests.support.data.publishing import selection_of_three
from tests.support.hub import ref_of

Move = Callable[[BotHarness, Repo], Awaitable[object]]


async def rename(bot: BotHarness, repo: Repo) -> None:
    await bot.hub.rename_repo(repo, "pottery")


async def transfer(bot: BotHarness, repo: Repo) -> None:
    """To an account on which the App is installed, too."""
    bot.hub.add_repo("umbrella/other", {"a.py": "1\n"})
    await bot.hub.transfer_repo(repo, "umbrella")


moves = pytest.mark.parametrize("move", [rename, transfer])


@moves
@pytest.mark.settings(review_seconds=0)
async def test_reviews_and_commands_go_on(bot: BotHarness, move: Move) -> None:
    bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Said why.")
    repo, pull = await open_pull(bot)
    before = pull.head_sha
    await move(bot, repo)
    await bot.receive_review(pull, "alice", "Please add a comment.", "CHANGES_REQUESTED")
    assert pull.head_sha != before
    await bot.say(pull, "/capuchin status")
    assert not any("did not open this pull request" in said for said in bot.comments_of(pull))


@moves
async def test_another_edit_is_put_into_the_pull_request(bot: BotHarness, move: Move) -> None:
    bot.runner.answer = selection_of_three()
    repo, pull = await open_pull(bot)
    await move(bot, repo)
    await bot.say(pull, "/capuchin use B")
    assert (await bot.run_of(repo.issues[1])).status is RunStatus.SWAPPED


@moves
@pytest.mark.settings(follow_up_seconds=0.2)
async def test_a_pull_request_is_looked_after_without_an_event(bot: BotHarness, move: Move) -> None:
    repo, pull = await open_pull(bot)
    async with bot.without_webhooks():
        await move(bot, repo)
        await bot.hub.close_issue(repo.issues[1], "alice")
    async with bot.working(settle=False):
        await bot.until(lambda: pull.state == "closed")
    await bot.settle()
    assert await bot.storage.pulls.list_all(ref_of(repo)) == []


@moves
@pytest.mark.settings(quota_person=1)
async def test_statistics_and_quotas_go_on(bot: BotHarness, move: Move) -> None:
    repo, _ = await open_pull(bot)
    await move(bot, repo)
    second = await bot.report_issue(repo)
    await bot.ask_by_label(second)
    if move is rename:  # an installation's quota is its own
        assert (await bot.run_of(second)).status is RunStatus.REFUSED
    history = await bot.storage.history.load(ref_of(repo), now() - timedelta(days=1))
    ended = [entry.status for entry in history.entries]
    assert RunStatus.OPENED_PULL_REQUEST in ended


@moves
@pytest.mark.parametrize("heard", [True, False])
async def test_a_run_at_work_goes_on(bot: BotHarness, move: Move, *, heard: bool) -> None:
    repo, issue = await bot.add_repo_with_issue()
    async with bot.at_work(bot.label(issue)):
        if heard:
            await move(bot, repo)
        else:
            async with bot.without_webhooks():
                await move(bot, repo)
        bot.runner.go_on.set()
    run = await bot.run_of(issue)
    assert (run.status, run.repo.id) == (RunStatus.OPENED_PULL_REQUEST, repo.id), run
    assert len(repo.pulls) == 1


async def test_an_old_name_may_be_taken_by_another_repository(bot: BotHarness) -> None:
    repo, pull = await open_pull(bot)
    await bot.hub.rename_repo(repo, "pottery")
    other = bot.add_repo()
    assert other.full_name == "acme/shop"
    assert await bot.storage.pulls.get(ref_of(repo), pull.number) is not None
    assert await bot.storage.pulls.get(ref_of(other), pull.number) is None
    issue = await bot.open_issue(other)
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert [len(one.pulls) for one in (repo, other)] == [1, 1]


@pytest.mark.settings(review_seconds=0)
async def test_a_renamed_default_branch_is_followed(bot: BotHarness) -> None:
    bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Said why.")
    repo, pull = await open_pull(bot)
    before = pull.head_sha
    await bot.hub.rename_default_branch(repo, "trunk")
    await bot.receive_review(pull, "alice", "Please add a comment.", "CHANGES_REQUESTED")
    assert pull.head_sha != before
    issue = await bot.open_issue(repo)
    await bot.settle()
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert repo.pulls[-1].base_ref == "trunk"
