"""Workers killed, told to go or stopped, alone or beside another: nothing is done twice."""

import asyncio
import signal
from collections import Counter
from collections.abc import Iterable

import docker
import pytest

from bot.data.run import Run, RunStatus
from capuchin_demo.hub.state import Issue
from capuchin_demo.recorded.recording import RecordedAnswer
from prompts.text import describe_dollars
from sandbox.docker.docker_client import connect
from tests.e2e import shop
from tests.e2e.failures.worker_process import run_worker
from tests.e2e.harness import SECONDS, BotHarness, StartBot
from tests.e2e.people import MAINTAINER
from tests.support.docker import containers_of, processes_of
from tests.support.hub import ref_of

SAMPLES = 2
"""As the repository's configuration has it; each may have had a call under way."""
SLOW = RecordedAnswer(call="editing/1", turn=0, reply=shop.RIGHT, delay=2)
"""Long enough to be killed in."""


async def test_a_killed_worker_is_replaced_and_one_call_of_a_sample_is_repeated_at_most(
    start_recorded_bot: StartBot,
) -> None:
    recording = shop.answers(SLOW)
    # Long enough to lose no lease while the machine is busy: that would be one start more.
    async with start_recorded_bot(recording, lease_seconds=SECONDS) as bot:
        repo, issue = await bot.add_repo_with_issue(label=True)
        with run_worker(bot.settings) as first:
            await bot.until(lambda: asked_for(bot, "editing/1", 1))
            first.send_signal(signal.SIGKILL)
            first.wait()
        begun = await bot.runs.get_latest(ref_of(repo), issue.number)
        assert begun is not None
        await bot.redis.delete(bot.storage.keys.run(begun.id, "lease"))  # its time has passed
        with run_worker(bot.settings) as second:
            run = await bot.wait_for_end(begun)
            second.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(second.wait, 300) == 0
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        assert run.starts == 2
        assert len(repo.pulls) == 1
        assert len(issue.comments) == 1
        questions = Counter((q.call, q.turn, q.messages) for q in bot.llm.requests)
        repeated = sum(questions.values()) - len(questions)
        assert repeated <= SAMPLES, "more than one call of a sample was repeated"


async def test_a_worker_told_to_go_loses_nothing_and_the_next_repeats_nothing(
    start_recorded_bot: StartBot,
) -> None:
    # Long enough to lose no lease while the machine is busy: that would be one start more.
    async with start_recorded_bot(shop.answers(SLOW), lease_seconds=SECONDS) as bot:
        repo, issue = await bot.add_repo_with_issue(label=True)
        with run_worker(bot.settings) as old:
            await bot.until(lambda: asked_for(bot, "editing/1", 1))
            old.send_signal(signal.SIGTERM)
            with run_worker(bot.settings) as new:
                assert await asyncio.to_thread(old.wait, 300) == 0
                run = await bot.wait_for_end(await bot.run_of(issue))
                new.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(new.wait, 300) == 0
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        assert (run.starts, run.fruitless_starts) == (2, 1)
        questions = Counter((q.call, q.turn, q.messages) for q in bot.llm.requests)
        assert questions.most_common(1)[0][1] == 1, questions
        assert bot.llm.disconnected == []
        daemon = connect(None)
        try:
            await bot.until(lambda: nothing_left(daemon, run))
        finally:
            daemon.close()
        (comment,) = issue.comments
        assert "I opened #2" in comment.body
        assert (len(repo.pulls), issue.labels) == (1, [])


async def nothing_left(daemon: docker.APIClient, run: Run) -> bool:
    return containers_of(daemon, run.id) == []


async def test_a_token_that_expires_on_the_way_is_renewed(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    async with bot.at_work(bot.label(issue)):
        bot.hub.expire_tokens()
        bot.runner.go_on.set()
        await bot.until(lambda: repo.pulls)
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert (len(repo.pulls), len(bot.comments_of(issue)), issue.labels) == (1, 1, [])


EFFECTS = ["POST comments", "POST reactions", "DELETE capuchin"]
"""All that asking back does to GitHub, in order."""


@pytest.mark.parametrize("effect", range(1, len(EFFECTS) + 1))
async def test_a_worker_that_dies_while_it_asks_back_is_replaced_without_a_trace(
    bot: BotHarness, manual_bot: BotHarness, effect: int
) -> None:
    repo, issue = await bot.add_repo_with_issue()
    await bot.hub.assign(issue, "bob", "alice")
    await bot.label(issue)
    asked = await bot.run_of(issue)
    lease = await manual_bot.die_after(
        effect, await manual_bot.take(asked.id), bot.parts.solve.handle
    )
    if (
        lease.run.end_reported
    ):  # what it asked about may be settled by then; it was asked all the same
        issue.assignees.clear()
    await lease.release(lease.run)
    await bot.settle()
    run = await bot.run_of(issue)
    assert (run.id, run.status) == (asked.id, RunStatus.NEEDS_CONFIRMATION)
    assert [comment.body.count("`bob`") for comment in issue.comments] == [1]
    assert [reaction.content for reaction in issue.reactions] == ["confused"]
    assert (issue.labels, repo.list_branches(), bot.runner.jobs) == ([], ["main"], [])


LONG = 300
"""Seconds that the call and the script would take; they must not be waited for."""
SLEEPS = f"<script>\nimport time\ntime.sleep({LONG})\n</script>"
UNDER_WAY = (
    RecordedAnswer(call="testing/0", turn=0, reply=SLEEPS),
    RecordedAnswer(call="testing/1", turn=0, reply=shop.SCRIPT, delay=LONG),
)
WORDS = {
    "label": "label",
    "close": "closed",
    "command": "requested",
    "disabled": "`capuchin:disabled`",
}


async def test_a_stop_ends_calls_and_executions_within_seconds(
    start_recorded_bot: StartBot,
) -> None:
    """Runs at once, each with an execution and a call under way, each stopped in its own way."""
    fields = {"worker_runs": len(WORDS), "sandbox_parallel": len(WORDS)}
    async with start_recorded_bot(shop.answers(*UNDER_WAY), **fields) as bot:
        repo = bot.add_repo()
        issues = {how: await bot.open_issue(repo) for how in WORDS}
        async with bot.working(settle=False, model_waits=()):
            await under_way(bot, issues.values())
            asked = len(bot.llm.requests)
            await bot.hub.remove_label(issues["label"], bot.settings.label, MAINTAINER)
            await bot.hub.close_issue(issues["close"], MAINTAINER)
            await bot.hub.comment(issues["command"], "/capuchin stop", MAINTAINER)
            await bot.hub.add_label(issues["disabled"], "capuchin:disabled", MAINTAINER)
            await bot.until(lambda: nothing_runs(bot))
            await bot.until(lambda: hung_up(bot, len(WORDS)))
        assert len(bot.llm.requests) == asked
        assert [asked.call for asked in bot.llm.disconnected] == ["testing/1"] * len(WORDS)
        for how, issue in issues.items():
            run = await bot.run_of(issue)
            assert run.status is RunStatus.STOPPED, (how, run)
            comment = issue.comments[0]
            assert WORDS[how] in comment.body
            assert f"I had spent {describe_dollars(run.dollars)} at list prices." in comment.body
            assert run.dollars > 0
            assert issue.labels == (["capuchin:disabled"] if how == "disabled" else [])
        assert (repo.list_branches(), repo.pulls) == (["main"], [])


async def under_way(bot: BotHarness, issues: Iterable[Issue]) -> None:
    """Each has a script that runs, and another sample that waits for the model."""
    runs = [await bot.run_of(issue) for issue in issues]
    daemon = connect(None)
    try:
        await bot.until(lambda: asked_for(bot, "testing/1", len(runs)))
        await bot.until(lambda: all_run(daemon, runs))
    finally:
        daemon.close()


async def asked_for(bot: BotHarness, call: str, times: int) -> bool:
    return sum(asked.call == call for asked in bot.llm.requests) == times


async def all_run(daemon: docker.APIClient, runs: Iterable[Run]) -> bool:
    """Process 1, the world, and the script in it."""
    found = [containers_of(daemon, run.id, status="running") for run in runs]
    return all(ids and processes_of(daemon, ids[0]) > 2 for ids in found)


async def hung_up(bot: BotHarness, times: int) -> bool:
    """The model's service notices by itself, after us, that nobody waits for it."""
    return len(bot.llm.disconnected) >= times


async def nothing_runs(bot: BotHarness) -> bool:
    return not await bot.runs.list_active()
