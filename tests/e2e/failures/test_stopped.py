"""A run that is stopped at work: calls and executions end at once, and the spending is told."""

from __future__ import annotations

from collections.abc import Iterable

import docker

from bot.data.run import Run, RunStatus
from capuchin_demo.hub.state import Issue
from capuchin_demo.recorded.recording import RecordedAnswer
from sandbox.docker.docker_client import connect
from tests.e2e import shop
from tests.e2e.harness import BotHarness, StartBot
from tests.e2e.people import MAINTAINER
from tests.support.docker import containers_of, processes_of

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
            assert f"I had spent ${run.dollars:.2f} at list prices." in comment.body
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
