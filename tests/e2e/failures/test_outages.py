"""GitHub or Redis fails at the worst moment, or for minutes: nothing is lost or done twice."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest
from redis.asyncio import Redis

from bot.data.failure import Failure
from bot.data.run import Run, RunStatus, now
from bot.github.http import MAX_TRIES
from bot.storage.lease import Lease
from capuchin_demo.hub.state import Issue, Repo
from tests.e2e.harness import BotHarness
from tests.support.clock import MovableClock
from tests.support.github.hub import LocalHub
from tests.support.github.hub_state import Exchange
from tests.support.redis import RedisServer

PERMISSION = "/repos/acme/shop/collaborators/*/permission"


async def test_a_502_after_the_pull_request_was_created(bot: BotHarness) -> None:
    repo, issue = await bot.add_repo_with_issue()
    bot.hub.faults.fail_next("POST", "/repos/acme/shop/pulls", status=502, after_effect=True)
    await bot.ask_by_label(issue)
    assert bot.hub.faults.pending == []
    assert (await bot.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
    assert (len(repo.pulls), len(repo.list_branches())) == (1, 2)
    (said,) = bot.comments_of(issue)
    assert "I opened #2" in said


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_github_that_cannot_say_who_may_lets_nobody_in_and_nothing_is_lost(
    bot: BotHarness, status: int
) -> None:
    """By a label, as every run: it waits, unsaid; asked again, GitHub knows."""
    may, may_not = (
        await bot.report_issue(bot.add_repo()),
        await bot.report_issue(bot.add_repo("acme/other")),
    )
    bot.hub.faults.fail_next("GET", PERMISSION, status=status, times=MAX_TRIES)
    bot.hub.faults.fail_next(
        "GET", PERMISSION.replace("shop", "other"), status=status, times=MAX_TRIES
    )
    async with bot.working():
        await bot.label(may)
        await bot.label(may_not, by="mallory")
        for issue in (may, may_not):
            await bot.until(lambda issue=issue: waits(bot, issue))
            assert (bot.comments_of(issue), issue.reactions) == ([], [])
        assert (bot.runner.jobs, may.labels, may_not.labels) == ([], ["capuchin"], ["capuchin"])
        for issue in (may, may_not):
            await bot.runs.bring_forward(await bot.run_of(issue), now())
    assert (await bot.run_of(may)).status is RunStatus.OPENED_PULL_REQUEST
    assert (await bot.run_of(may_not)).status is RunStatus.REFUSED
    assert [said.partition(".")[0] for said in bot.comments_of(may_not)] == ["Thank you, @mallory"]


async def test_a_command_waits_for_a_github_that_can_say_who_may(bot: BotHarness) -> None:
    repo = bot.add_repo()
    issues = {login: await bot.report_issue(repo) for login in ("alice", "mallory")}
    bot.hub.faults.fail_next("GET", PERMISSION, times=2 * MAX_TRIES)
    async with bot.working():
        for login, issue in issues.items():
            await bot.comment(issue, "/capuchin fix", by=login)
        await bot.until(lambda: not bot.hub.faults.pending)
        assert await bot.inbox.count_requests() == 2
        assert bot.runner.jobs == []
        assert [bot.comments_of(issue) for issue in issues.values()] == [[], []]
        await bot.until(lambda: come_up(bot))
    assert [len(repo.pulls), len(bot.runner.jobs)] == [1, 1]
    assert "I opened #3" in bot.comments_of(issues["alice"])[0]
    assert bot.comments_of(issues["mallory"])[0].startswith("Thank you, @mallory")


async def waits(bot: BotHarness, issue: Issue) -> bool:
    run = await bot.run_of(issue)
    return run.waiting_for is Failure.GITHUB_UNAVAILABLE and run.not_before is not None


async def come_up(bot: BotHarness) -> bool:
    """What waits to be tried again is due now; whether nothing is left."""
    key = bot.storage.keys.queue
    for order in await bot.redis.zrange(key, 0, -1):
        await bot.redis.zadd(key, {order: 1}, xx=True)
    return not await bot.inbox.count_requests()


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
        assert run.waiting_for in (Failure.GITHUB_UNAVAILABLE, Failure.GITHUB_LIMITED)
        clock.ahead += (run.not_before - now()).total_seconds()
        # Redis's clock does not move with it.
        key = manual_bot.storage.keys.writes(run.repo.installation)
        await manual_bot.redis.delete(f"{key}:blocked")
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


FULL = (("CONFIG SET", "maxmemory", "1"), ("CONFIG SET", "maxmemory", "0"))
READ_ONLY = (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"))


@pytest.fixture
async def fragile(
    hub: LocalHub, own_redis_server: RedisServer, settings_fields: dict[str, object]
) -> AsyncGenerator[BotHarness]:
    """The bot on a Redis of its own."""
    async with (
        Redis.from_url(own_redis_server.url) as redis,
        BotHarness.start(hub, redis, {**settings_fields, "redis_url": own_redis_server.url}) as bot,
    ):
        yield bot


@pytest.mark.parametrize(
    ("refuse", "take"), [pytest.param(*FULL, id="OOM"), pytest.param(*READ_ONLY, id="READONLY")]
)
async def test_a_redis_that_takes_no_writes_in_mid_run(
    fragile: BotHarness,
    refuse: tuple[str, ...],
    take: tuple[str, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    repo = fragile.add_repo()
    first, second = await fragile.report_issue(repo), await fragile.report_issue(repo)
    fragile.runner.go_on.clear()
    async with fragile.working():
        await fragile.label(first)
        await fragile.until(lambda: fragile.runner.waiting)
        await fragile.redis.execute_command(*refuse)
        await fragile.label(second)
        unheard = [d for d in fragile.hub.deliveries if d.action == "labeled"][-1]
        assert unheard.status == 503
        before = await refusals(fragile.redis)
        fragile.runner.go_on.set()
        await fragile.until(lambda: more_refusals(fragile.redis, before))
        await fragile.redis.execute_command(*take)
        assert (await fragile.hub.redeliver(unheard)).status == 202
        unheard.status = 202  # it is another delivery, for GitHub
    for issue in (first, second):
        assert (await fragile.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
        assert len(fragile.comments_of(issue)) == 1
    assert (len(repo.pulls), len(repo.list_branches())) == (2, 3)
    assert "Traceback" not in caplog.text


async def refusals(redis: Redis) -> int:
    """How many writes Redis has not taken."""
    told = cast("dict[str, dict[str, int]]", await redis.info("errorstats"))
    return sum(told.get(f"errorstat_{kind}", {}).get("count", 0) for kind in ("OOM", "READONLY"))


async def more_refusals(redis: Redis, before: int) -> bool:
    return await refusals(redis) > before + 2
