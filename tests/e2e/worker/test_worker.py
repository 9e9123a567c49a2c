"""What becomes of a run, whatever its work does: the worker in-process, on a real Redis."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import datetime, timedelta

import pytest
from pydantic import BaseModel
from redis.asyncio import Redis

from bot.data.failure import Failure
from bot.data.request import SWEEP_PREFIX, RunRequest, StartOutcome
from bot.data.run import Login, RepoRef, Run, RunId, RunStatus, now
from bot.errors import GitHubUnavailable, LeaseLost, TryLater, translate_errors
from bot.queue.sweep import FindMissedEvents, SweepActions
from bot.queue.worker import Worker
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from bot.storage.workers import Cursors
from pipeline.codebase.git import GitFailed
from pipeline.concurrency import gather_all
from pipeline.data.types import Usage
from pipeline.models.metering import Meter
from sandbox.frozen import replace
from tests.support.handlers import HandleRun, handlers_of
from tests.support.settling import settle

pytestmark = pytest.mark.spine

REPO = RepoRef(id=1, owner="acme", name="shop", installation=1)
SECONDS = 120
"""For so long a test waits for what must come."""


class Note(BaseModel):
    text: str


class Told:
    """The `give_up` of these tests: remembers what the maintainer would read."""

    def __init__(self) -> None:
        self.failures: list[Failure | None] = []
        self.later = 0
        """How often it is to fail before it works."""

    async def __call__(self, run: Run, lease: Lease) -> Run:
        await lease.require()
        if self.later:
            self.later -= 1
            raise TryLater(Failure.GITHUB_UNAVAILABLE, after=0)
        self.failures.append(run.failure)
        return replace(run, comment_id=12)


@pytest.fixture
def told() -> Told:
    return Told()


async def ask(runs: Runs, issue: int = 7, delivery: str = "guid") -> str:
    asked = await runs.create(REPO, issue, asked_by=Login("ann"), delivery=f"{delivery}-{issue}")
    return asked.run_id


async def opens_pull_request(run: Run, lease: Lease) -> Run:
    return replace(run, status=RunStatus.OPENED_PULL_REQUEST, pull_request=3)


async def buggy(run: Run, lease: Lease) -> Run:
    raise ZeroDivisionError


class Bench:
    """Runs, and workers on them."""

    def __init__(self, settings: Settings, runs: Runs) -> None:
        self.settings = settings
        self.runs = runs
        self.told = Told()
        self.give_up: HandleRun = self.told
        self.find_missed: FindMissedEvents | None = None

    async def ask(self, issue: int = 7) -> RunId:
        """The run that a delivery asks for."""
        ann = Login("ann")
        asked = await self.runs.create(REPO, issue, asked_by=ann, delivery=f"guid-{issue}")
        return asked.run_id

    def worker(self, work: HandleRun, **timings: float) -> Worker:
        settings = replace(self.settings, timings=replace(self.settings.timings, **timings))
        actions = SweepActions(self.find_missed)
        return Worker(settings, handlers_of(work, self.give_up), sweep_actions=actions)

    async def settle(self, work: HandleRun, **timings: float) -> Run:
        """The record of a run, asked for and worked on until it is over."""
        run_id = await self.ask()
        await settle(self.worker(work, **timings), self.settings, SECONDS)
        return await self.get(run_id)

    async def get(self, run_id: RunId) -> Run:
        run = await self.runs.get(run_id)
        assert run is not None
        return run

    async def find(self, work: HandleRun, **timings: float) -> None:
        """A worker finds what was missed; it stops two turns after the run of it is over."""
        worker = self.worker(work, **timings)
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(SECONDS):
            while not (run := await self.runs.get_latest(REPO, 7)) or not run.status.final:
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
        worker.stop()
        await running


@pytest.fixture
def bench(settings: Settings, runs: Runs) -> Bench:
    return Bench(settings, runs)


async def test_a_finished_run_keeps_its_record_and_frees_its_issue(
    bench: Bench, storage: Storage, redis: Redis
) -> None:
    run = await bench.settle(opens_pull_request)
    assert (run.status, run.pull_request, run.starts) == (RunStatus.OPENED_PULL_REQUEST, 3, 1)
    assert run.started_at is not None
    assert run.finished_at is not None
    assert await redis.exists(storage.keys.run(run.id, "lease")) == 0
    assert 29 * 86_400 < await redis.ttl(storage.keys.run(run.id)) <= 30 * 86_400
    again = await bench.runs.create(REPO, 7, asked_by=Login("ann"), delivery="another")
    assert again.outcome is StartOutcome.CREATED


async def test_a_bug_fails_the_run_is_logged_and_is_reported(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def began(run: Run, lease: Lease) -> Run:
        await lease.save(replace(run, base_commit="a" * 40))
        raise ZeroDivisionError

    run = await bench.settle(began)
    assert (run.status, run.failure) == (RunStatus.FAILED, Failure.INTERNAL)
    assert (run.base_commit, run.comment_id) == ("a" * 40, 12)
    assert bench.told.failures == [Failure.INTERNAL]
    assert f"Run {run.id}: a bug" in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_work_that_returns_without_an_end_is_a_bug(bench: Bench) -> None:
    async def endless(run: Run, lease: Lease) -> Run:
        return run

    run = await bench.settle(endless)
    assert (run.status, run.failure) == (RunStatus.FAILED, Failure.INTERNAL)


async def test_what_passes_by_itself_is_tried_again_and_not_held_against_the_run(
    bench: Bench,
) -> None:
    calls: list[int] = []

    async def unlucky(run: Run, lease: Lease) -> Run:
        calls.append(run.starts)
        if len(calls) < 8:
            raise TryLater(Failure.MODEL_UNAVAILABLE, after=0.01)
        return await opens_pull_request(run, lease)

    run = await bench.settle(unlucky)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert calls == list(range(1, 9))
    assert run.waiting_for is Failure.MODEL_UNAVAILABLE
    assert bench.told.failures == []


async def test_a_run_that_waits_is_left_alone_until_its_time(
    bench: Bench, storage: Storage
) -> None:
    async def unlucky(run: Run, lease: Lease) -> Run:
        raise TryLater(Failure.MODEL_UNAVAILABLE, after=3600)

    run_id = await bench.ask()
    worker = bench.worker(unlucky)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(SECONDS):
        while (await bench.get(run_id)).not_before is None:
            await asyncio.sleep(0.02)
    await asyncio.sleep(3 * bench.settings.timings.sweep_seconds)
    worker.stop()
    await running
    run = await bench.get(run_id)
    assert (run.status, run.starts) == (RunStatus.QUEUED, 1)
    assert run.not_before is not None
    assert run.not_before > now() + timedelta(minutes=55)
    assert (await storage.active_runs.survey()).idle == []


async def test_what_never_comes_back_fails_the_run_after_a_while(bench: Bench) -> None:
    async def unlucky(run: Run, lease: Lease) -> Run:
        raise TryLater(Failure.SANDBOX_UNAVAILABLE, after=0.1)

    run = await bench.settle(unlucky, patience_seconds=0.5)
    assert (run.status, run.failure) == (RunStatus.FAILED, Failure.SANDBOX_UNAVAILABLE)
    assert bench.told.failures == [Failure.SANDBOX_UNAVAILABLE]
    assert run.starts > 1


async def test_paying_for_what_never_comes_back_is_no_progress(bench: Bench) -> None:
    async def paying(run: Run, lease: Lease) -> Run:
        meter = await Meter.open(lease.checkpoints, 1000)
        await meter.add("testing/0", "m", Usage(input=1), 0.01)
        raise TryLater(Failure.MODEL_UNAVAILABLE, after=0.1)

    run = await bench.settle(paying, patience_seconds=0.5)
    assert (run.status, run.failure) == (RunStatus.FAILED, Failure.MODEL_UNAVAILABLE)


async def test_a_fault_of_our_own_is_not_waited_out_for_hours(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def damaged(run: Run, lease: Lease) -> Run:
        raise TryLater(Failure.INTERNAL, after=0) from GitFailed("fetch", 128, "bad object")

    run = await bench.settle(damaged)
    assert (run.failure, run.starts) == (Failure.NO_PROGRESS, 6)
    assert "bad object" in caplog.text


async def test_a_failure_that_cannot_be_reported_is_reported_later_and_the_work_not_repeated(
    bench: Bench,
) -> None:
    calls: list[str] = []

    async def counted(run: Run, lease: Lease) -> Run:
        calls.append(run.id)
        raise ZeroDivisionError

    bench.told.later = 2
    run = await bench.settle(counted)
    assert (run.status, run.failure) == (RunStatus.FAILED, Failure.INTERNAL)
    assert bench.told.failures == [Failure.INTERNAL]
    assert len(calls) == 1


async def test_a_failure_that_can_never_be_reported_still_ends_the_run(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.told.later = 1_000
    run = await bench.settle(buggy, patience_seconds=0)
    assert (run.status, run.failure) == (RunStatus.FAILED, Failure.INTERNAL)
    assert "could not report to the maintainer" in caplog.text


async def test_a_bug_in_telling_ends_the_run_all_the_same(bench: Bench) -> None:
    bench.give_up = buggy
    run = await bench.settle(buggy)
    assert (run.status, run.failure) == (RunStatus.FAILED, Failure.INTERNAL)


async def test_work_whose_lease_was_lost_is_cancelled_and_may_have_no_more_effects(
    bench: Bench, storage: Storage, redis: Redis
) -> None:
    stale: list[Lease] = []
    cancelled: list[str] = []

    async def robbed_once(run: Run, lease: Lease) -> Run:
        if stale:
            assert lease.fence > stale[0].fence
            return await opens_pull_request(run, lease)
        stale.append(lease)
        await redis.delete(storage.keys.run(run.id, "lease"))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(run.id)
            with pytest.raises(LeaseLost):
                await lease.require()
            raise
        raise AssertionError("not cancelled")

    run = await bench.settle(robbed_once, lease_seconds=6)  # found out at a third of it
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert run.starts == 2
    assert cancelled == [run.id]
    with pytest.raises(LeaseLost):
        await stale[0].save(run)


async def test_work_longer_than_the_lease_keeps_it(
    bench: Bench, storage: Storage, redis: Redis
) -> None:
    async def slow(run: Run, lease: Lease) -> Run:
        left, renewed = await redis.pttl(storage.keys.run(run.id, "lease")), 0
        async with asyncio.timeout(SECONDS):
            while renewed < 3:  # at each third: for longer than the lease
                await asyncio.sleep(0.1)
                now_left = await redis.pttl(storage.keys.run(run.id, "lease"))
                renewed += now_left > left
                left = now_left
        await lease.require()
        return await opens_pull_request(run, lease)

    # A machine that stands still for two thirds of it takes it away.
    run = await bench.settle(slow, lease_seconds=9)
    assert (run.status, run.starts) == (RunStatus.OPENED_PULL_REQUEST, 1)


async def test_a_worker_does_no_more_runs_at_a_time_than_it_may(bench: Bench) -> None:
    at_once: list[int] = []
    busy, full = 0, asyncio.Event()

    async def counted(run: Run, lease: Lease) -> Run:
        nonlocal busy
        busy += 1
        at_once.append(busy)
        if busy == bench.settings.worker_runs:
            full.set()
        await lease.checkpoints.save("note", Note(text="x"))
        await full.wait()
        await asyncio.sleep(0.05)  # a third would begin now
        busy -= 1
        return await opens_pull_request(run, lease)

    await gather_all(bench.ask(issue) for issue in range(1, 8))
    await bench.settle(counted)
    assert len(at_once) == 7
    assert max(at_once) == bench.settings.worker_runs == 2


async def test_two_workers_never_have_the_same_run(bench: Bench) -> None:
    done: list[int] = []

    async def counted(run: Run, lease: Lease) -> Run:
        done.append(run.issue)
        await asyncio.sleep(0.05)
        return await opens_pull_request(run, lease)

    await gather_all(bench.ask(issue) for issue in range(20))
    await gather_all(bench.settle(counted) for _ in range(2))
    assert sorted(done) == list(range(20))


def labelled(repo: RepoRef, at: datetime) -> RunRequest:
    delivery = f"{SWEEP_PREFIX}{repo.id}-7-{at.timestamp():.0f}"
    return RunRequest(repo=repo, issue=7, asked_by=Login("ann"), delivery=delivery, found_at=at)


async def labelled_once(cursors: Cursors) -> AsyncGenerator[RunRequest]:
    yield labelled(REPO, now() - timedelta(minutes=5))


async def test_a_label_whose_webhook_never_came_is_found_once(bench: Bench) -> None:
    done: list[str] = []

    async def counted(run: Run, lease: Lease) -> Run:
        done.append(run.asked_by)
        return replace(run, status=RunStatus.NO_FIX)

    bench.find_missed = labelled_once
    await bench.find(counted, missed_seconds=0.2)
    assert done == ["ann"], "the label stays on, and is not answered again"


async def test_a_record_that_cannot_be_read_hides_no_other_missed_webhook(
    bench: Bench, storage: Storage
) -> None:
    other = replace(REPO, id=REPO.id + 1, name="other")

    async def both(cursors: Cursors) -> AsyncGenerator[RunRequest]:
        for repo in (other, REPO):
            yield labelled(repo, now())

    await storage.redis.set(storage.keys.issue(other, 7, "latest-run"), "newer", ex=60)
    await storage.redis.set(storage.keys.run(RunId("newer")), '{"of": "a newer worker"}', ex=60)
    bench.find_missed = both
    await bench.find(opens_pull_request)


@pytest.mark.parametrize("error", [GitHubUnavailable("x: github.test: 502"), KeyError("x")])
async def test_a_github_that_cannot_be_asked_does_not_stop_the_worker(
    bench: Bench, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    async def unreachable(cursors: Cursors) -> AsyncIterator[RunRequest]:
        with translate_errors():
            raise error
        yield  # makes this an iterator

    bench.find_missed = unreachable
    run = await bench.settle(opens_pull_request)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert "Could not look on GitHub for what was missed" in caplog.text
    assert isinstance(error, KeyError) or "github.test: 502" in caplog.text
