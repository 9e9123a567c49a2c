"""GitHub is away, or wants no more calls, for ten minutes: nothing is lost, nothing done twice.

The time is the runs' own: what they say they wait is added up instead of waited.
"""

from __future__ import annotations

import pytest

from bot.data.run import Failure, Run, RunStatus, now
from bot.storage.lease import Lease
from capuchin_demo.hub.hub import LocalHub
from capuchin_demo.hub.state import Exchange, Issue, Repo
from tests.e2e.harness import BotHarness
from tests.support.clock import MovableClock

TEN_MINUTES = 600.0


async def attempted(manual_bot: BotHarness, lease: Lease) -> Run:
    """One worker's go at a run; the record that it leaves."""
    await manual_bot.parts.build_worker().build_attempt(lease).run()
    run = await manual_bot.runs.get(lease.run.id)
    assert run is not None
    return run


async def ridden_out(
    manual_bot: BotHarness, lease: Lease, clock: MovableClock, hub: LocalHub
) -> tuple[Run, int]:
    """The run as it ended, and how many attempts it took."""
    for tries in range(1, 60):
        run = await attempted(manual_bot, lease)
        if run.status.final:
            return run, tries
        assert run.not_before is not None
        assert run.waiting_for is Failure.GITHUB_UNAVAILABLE
        clock.ahead += (run.not_before - now()).total_seconds()
        if clock.ahead >= TEN_MINUTES:
            hub.faults.down = False
        lease = await manual_bot.take(run.id)
    raise AssertionError("it never ended")


def assert_done_once(run: Run, repo: Repo, issue: Issue) -> None:
    assert run.status is RunStatus.OPENED_PULL_REQUEST, run
    assert len(repo.pulls) == 1
    assert len(issue.comments) == 1
    assert issue.labels == []


STAGES = {
    "at once": ("POST", "/access_tokens"),
    "after the first comment": ("POST", "/comments"),
    "after the push": ("POST", "/git-receive-pack"),
    "after the pull request": ("POST", "/pulls"),
    "after the last word": ("PATCH", "/issues/comments"),
}


@pytest.mark.parametrize("stage", STAGES)
async def test_an_outage_of_ten_minutes(manual_bot: BotHarness, hub: LocalHub, stage: str) -> None:
    repo, issue = await manual_bot.prepare_issue()
    method, part = STAGES[stage]
    gone: list[str] = []

    def heard(exchange: Exchange) -> None:
        if exchange.method == method and part in exchange.path and not gone:
            gone.append(exchange.path)
            hub.faults.down = True

    hub.listen(heard)
    clock = MovableClock()
    run, tries = await ridden_out(manual_bot, await manual_bot.lease(repo, issue), clock, hub)
    assert gone
    assert clock.ahead >= TEN_MINUTES
    assert tries <= 2 + TEN_MINUTES / 30
    assert_done_once(run, repo, issue)


@pytest.mark.parametrize(("calls", "secondary"), [(0, False), (3, True), (8, False), (15, True)])
async def test_a_rate_limit_of_ten_minutes(
    manual_bot: BotHarness, hub: LocalHub, calls: int, secondary: bool
) -> None:
    repo, issue = await manual_bot.prepare_issue()
    hub.limit.clock = clock = MovableClock()
    hub.limit_rate(calls, TEN_MINUTES, secondary=secondary)
    run, tries = await ridden_out(manual_bot, await manual_bot.lease(repo, issue), clock, hub)
    assert tries <= 3  # it waits as long as GitHub says, and does not knock meanwhile
    assert clock.ahead >= TEN_MINUTES - 60
    assert_done_once(run, repo, issue)
