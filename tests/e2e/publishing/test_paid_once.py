"""Whatever happens between a paid answer and its publication, it is not paid for again."""

import pytest

from bot.data.failure import Failure
from bot.data.run import Login, Run, RunStatus, Stop, StopReason
from capuchin_demo.hub import events
from capuchin_demo.hub.state import Issue, Repo, now
from pipeline.data.types import NoFix, Patch
from pipeline.workflows.revise import Revision
from tests.e2e.followup.steps import ASKS, FOLLOW_UP_DIFF, Act, ask_by_label, open_pull
from tests.e2e.harness import BotHarness
from tests.support.hub import installation_of, ref_of


async def go_away(bot: BotHarness, issue: Issue) -> None:
    bot.hub.faults.down = True


async def come_back(bot: BotHarness, issue: Issue) -> None:
    bot.hub.faults.down = False


async def suspend(bot: BotHarness, issue: Issue) -> None:
    one = installation_of(issue.repo)
    one.suspended_at = now()
    bot.hub.tokens.revoke(one)


async def suspend_aloud(bot: BotHarness, issue: Issue) -> None:
    await suspend(bot, issue)
    one = installation_of(issue.repo)
    events.send_installation_event(bot.hub, one, "suspend", issue.repo.owner)
    await wait_for_stop(bot, issue)


async def resume(bot: BotHarness, issue: Issue) -> None:
    await bot.hub.unsuspend(issue.repo, "alice")


async def limit(bot: BotHarness, issue: Issue) -> None:
    bot.hub.limit.allow(0, 3600)


async def unlimit(bot: BotHarness, issue: Issue) -> None:
    bot.hub.limit.allow(5000, 3600)
    await bot.redis.delete(f"{bot.storage.keys.writes(installation_of(issue.repo).id)}:blocked")


async def close(bot: BotHarness, issue: Issue) -> None:
    await bot.hub.close_issue(issue, "alice")
    await wait_for_stop(bot, issue)


async def reopen(bot: BotHarness, issue: Issue) -> None:
    await bot.hub.reopen_issue(issue, "alice")


async def stop(bot: BotHarness, issue: Issue) -> None:
    await bot.runs.request_stop(
        ref_of(issue.repo), issue.number, Stop(by=Login("alice"), why=StopReason.COMMAND)
    )
    await wait_for_stop(bot, issue)


async def nothing(bot: BotHarness, issue: Issue) -> None:
    pass


async def wait_for_stop(bot: BotHarness, issue: Issue) -> None:
    """Until the run is cancelled, which this is a part of."""
    await bot.until(lambda: False, 60)


ACCIDENTS: dict[str, tuple[Act, Act]] = {
    "away": (go_away, come_back),
    "suspended": (suspend, resume),
    "suspended aloud": (suspend_aloud, resume),
    "limited": (limit, unlimit),
    "closed": (close, reopen),
    "stopped": (stop, nothing),
}


async def lose(bot: BotHarness, accident: str) -> tuple[Repo, Issue, Run]:
    """An issue whose run has its answer, and no time to publish it."""
    repo = bot.add_repo()
    happen, mend = ACCIDENTS[accident]
    issue = await bot.report_issue(repo)
    bot.runner.answered = lambda: happen(bot, issue)
    await bot.label(issue)
    lost = await bot.solve(issue)
    assert lost.status in (RunStatus.FAILED, RunStatus.STOPPED)
    assert (repo.pulls, repo.list_branches()) == ([], ["main"])
    bot.runner.answered = None
    await mend(bot, issue)
    return repo, issue, lost


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("accident", ACCIDENTS)
@pytest.mark.settings(patience_seconds=0)
async def test_the_answer_is_published_when_asked_again_and_no_model_is_asked(
    bot: BotHarness, accident: str, ask: str
) -> None:
    repo, issue, lost = await lose(bot, accident)
    await ASKS[ask](bot, issue)
    run = await bot.solve(issue)
    assert run.id != lost.id
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert (len(repo.pulls), len(bot.runner.jobs)) == (1, 1)
    assert run.dollars == 0


@pytest.mark.settings(patience_seconds=0)
async def test_that_there_is_no_fix_is_said_when_asked_again(bot: BotHarness) -> None:
    bot.runner.answer = NoFix(reason="no edit")
    _, issue, _ = await lose(bot, "away")
    await ask_by_label(bot, issue)
    assert (await bot.solve(issue)).status is RunStatus.NO_FIX
    assert len(bot.runner.jobs) == 1
    await ask_by_label(bot, issue)  # people know now: this asks for another try
    await bot.solve(issue)
    assert len(bot.runner.jobs) == 2


@pytest.mark.settings(patience_seconds=0)
async def test_retry_anyway_starts_from_scratch(bot: BotHarness) -> None:
    _, issue, _ = await lose(bot, "away")
    await bot.comment(issue, "/capuchin retry anyway")
    assert (await bot.solve(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert len(bot.runner.jobs) == 2


async def test_who_stops_a_run_with_an_answer_is_shown_it(bot: BotHarness) -> None:
    _, issue, run = await lose(bot, "stopped")
    assert run.status is RunStatus.STOPPED
    assert "+    return a + b" in bot.comments_of(issue)[-1]


async def test_what_failed_with_an_answer_shows_it(bot: BotHarness) -> None:
    """A bug of ours after the answer."""

    async def fail() -> None:
        raise ZeroDivisionError

    issue = await bot.report_issue(bot.add_repo())
    bot.runner.answered = fail
    await bot.label(issue)
    assert (await bot.solve(issue)).failure is Failure.INTERNAL
    assert "+    return a + b" in bot.comments_of(issue)[-1]


@pytest.mark.settings(patience_seconds=0, review_seconds=0)
async def test_an_answer_to_a_review_is_paid_for_once(bot: BotHarness) -> None:
    _, pull = await open_pull(bot)

    async def lose_github() -> None:
        bot.hub.faults.down = True

    bot.runner.meanwhile = lose_github
    bot.runner.revised = Revision(patch=Patch(diff=FOLLOW_UP_DIFF), answer="Said so.")
    await bot.hub.review(pull, "alice", "Say why.", state="CHANGES_REQUESTED")
    await bot.settle()
    assert bot.comments_of(pull) == []
    bot.hub.faults.down, bot.runner.meanwhile = False, None
    await bot.hub.review(pull, "alice", "One more thing.", state="CHANGES_REQUESTED")
    bot.runner.revised = Revision(patch=None, answer="It is so already.")
    await bot.settle()
    assert [len(task.feedback) for task in bot.runner.tasks] == [1, 1]
    assert "# Both count." in (pull.repo.read_file(pull.head_ref, "shop.py") or "")
    said = bot.comments_of(pull)
    assert ["Said so." in one for one in said] == [True, False]
    assert "It is so already." in said[1]
