"""The status comment: one a run, edited in place, five seconds apart, whatever others do to it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from redis.asyncio import Redis

from bot.comments import status as comments
from bot.comments.status import render_queued
from bot.data.progress import Progress
from bot.data.run import Lane, QueuePosition, Run, RunStatus, now
from bot.queue.jobs import RunQueue
from bot.queue.position import QueueAnnouncer
from bot.runs.status_comment import StatusComment, build_announcer
from bot.storage.lease import Lease
from bot.storage.workers import WorkerState
from capuchin_demo.hub.state import Issue, Repo
from pipeline.data.types import NoFix
from sandbox.frozen import replace
from tests.e2e.harness import BotHarness
from tests.support.data.publishing import a_run
from tests.support.github.hub import LocalHub
from tests.support.github.hub_state import Exchange
from tests.support.hub import ref_of

EVERY = 0.3


@dataclass
class Edits:
    """When the hub took each write of a comment, in seconds of the loop's clock."""

    at: list[float] = field(default_factory=list[float])
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self, exchange: Exchange) -> None:
        if "/comments" in exchange.path and exchange.method in ("POST", "PATCH"):
            self.at.append(asyncio.get_running_loop().time())
            self.came.set()

    async def next(self) -> None:
        self.came.clear()
        await asyncio.wait_for(self.came.wait(), 300)


@asynccontextmanager
async def status_of(
    manual_bot: BotHarness,
) -> AsyncGenerator[tuple[Issue, Lease, Callable[[Lease], StatusComment], Edits]]:
    edits = Edits()
    timings = replace(manual_bot.settings.timings, status_seconds=EVERY)
    settings = replace(manual_bot.settings, timings=timings)
    manual_bot.hub.listen(edits.heard)
    _, issue, lease = await manual_bot.begin_run()
    async with manual_bot.parts.github.open_repository(lease.run.repo) as opened:
        yield issue, lease, lambda lease: StatusComment(opened, lease, settings), edits


async def test_edits_are_apart_whichever_worker_makes_them_and_the_last_wins(
    manual_bot: BotHarness,
) -> None:
    async with status_of(manual_bot) as (issue, lease, status_with, edits):
        first = status_with(lease)
        run = replace(lease.run, comment_id=await first.write(lease.run, marked(lease.run, "a")))
        async with first.show_updates(run):
            for number in range(100):
                first.update(Progress(doing=f"Step {number}."))
            await edits.next()
            assert "Step 99." in issue.comments[0].body
        await lease.release(run)
        second = await manual_bot.take(run.id)
        assert (
            await status_with(second).write(run, marked(run, "the end"), last=True)
            == run.comment_id
        )
    assert [comment.body for comment in issue.comments] == [marked(run, "the end")]
    assert len(edits.at) == 3
    assert edits.at[1] - edits.at[0] >= EVERY - 0.001


async def test_a_comment_that_a_person_deletes_is_left_alone_until_the_end(
    manual_bot: BotHarness, hub: LocalHub
) -> None:
    async with status_of(manual_bot) as (issue, lease, status_with, edits):
        status = status_with(lease)
        run = replace(lease.run, comment_id=await status.write(lease.run, marked(lease.run, "a")))
        await hub.delete_comment(issue.comments[0], "alice")
        async with status.show_updates(run):
            status.update(Progress(doing="Going on."))
            await edits.next()
        assert await status.write(run, marked(run, "another worker")) == run.comment_id
        assert issue.comments == []
        ended = replace(run, comment_id=await status.write(run, marked(run, "the end"), last=True))
        assert await status.write(ended, marked(run, "the end"), last=True) == ended.comment_id
    assert [comment.body for comment in issue.comments] == [marked(run, "the end")]


async def test_a_stranger_who_quotes_the_marker_is_not_taken_for_us(manual_bot: BotHarness) -> None:
    _, issue, lease = await manual_bot.begin_run()
    quoted = f"> look\n{comments.status_marker(lease.run.id)}"
    await manual_bot.hub.comment(issue, quoted, "mallory")
    await manual_bot.work_on(lease)
    assert issue.comments[0].body == quoted
    assert "I opened #" in issue.comments[1].body


async def test_while_it_works_the_page_is_updated_as_well(
    manual_bot: BotHarness, redis: Redis
) -> None:
    async with status_of(manual_bot) as (_, lease, status_with, edits):
        status = status_with(lease)
        run = replace(lease.run, comment_id=await status.write(lease.run, marked(lease.run, "a")))
        async with status.show_updates(run):
            status.update(Progress(doing="Going on.", files=3))
            await edits.next()
    kept = await manual_bot.storage.progress.load(run.id)
    assert (kept.doing, kept.files) == ("Going on.", 3)


async def queue(manual_bot: BotHarness, count: int) -> tuple[Repo, list[Issue], list[str]]:
    """As many runs that nobody begins, asked for long enough ago."""
    repo, issue = await manual_bot.prepare_issue()
    issues = [issue]
    for number in range(1, count):
        issues.append(await manual_bot.hub.open_issue(repo, f"x{number}", author="bob"))
    ids: list[str] = []
    for each in issues:
        lease = await manual_bot.lease(repo, each, f"queue{each.number}")
        ids.append(lease.run.id)
        await lease.release(replace(lease.run, created_at=a_run().created_at))
    return repo, issues, ids


def waiting(manual_bot: BotHarness) -> QueueAnnouncer:
    announce = build_announcer(manual_bot.parts.github, manual_bot.settings)
    return QueueAnnouncer(RunQueue(manual_bot.storage), announce)


async def test_those_who_wait_are_told_their_place_and_when_it_is_their_turn(
    manual_bot: BotHarness,
) -> None:
    _, issues, ids = await queue(manual_bot, 2)
    await waiting(manual_bot).announce()
    bodies = [issue.comments[0].body for issue in issues]
    assert all("@alice" in body for body in bodies)
    assert sorted("behind 1 " in body for body in bodies) == [False, True]
    await manual_bot.storage.redis.lpush(manual_bot.storage.keys.durations, 600, 900, 1200)  # pyright: ignore[reportGeneralTypeIssues] - typed as maybe sync
    slots = {Lane.ISSUES: 1, Lane.PULLS: 1}
    await manual_bot.storage.workers.save_heartbeat(WorkerState(name="a worker", slots=slots))
    first = next(n for n, body in enumerate(bodies) if "next in the queue" in body)
    lease = await manual_bot.take(ids[first])
    await lease.save(replace(lease.run, starts=1, started_at=now()))
    await waiting(manual_bot).announce()
    assert len(issues[1 - first].comments) == 1


async def test_a_place_that_has_not_changed_is_not_told_again(manual_bot: BotHarness) -> None:
    _, issues, _ = await queue(manual_bot, 1)
    await waiting(manual_bot).announce()
    effects = len(manual_bot.effects)
    await waiting(manual_bot).announce()
    assert len(manual_bot.effects) == effects
    assert len(issues[0].comments) == 1


async def test_a_run_that_waited_goes_on_in_its_comment(manual_bot: BotHarness) -> None:
    _, issues, ids = await queue(manual_bot, 1)
    await waiting(manual_bot).announce()
    manual_bot.runner.answer = NoFix(reason="no edit")
    run = await manual_bot.work_on(await manual_bot.take(ids[0]))
    assert (run.status, run.queue_position) == (RunStatus.NO_FIX, 0)
    assert len(issues[0].comments) == 1


async def test_who_may_not_ask_is_not_told_a_place(manual_bot: BotHarness) -> None:
    repo, issues, _ = await queue(manual_bot, 1)
    repo.grant("alice", "read")
    await waiting(manual_bot).announce()
    assert all("queue" not in comment.body for comment in issues[0].comments)


async def test_a_run_that_somebody_has_begun_is_not_told_a_place(manual_bot: BotHarness) -> None:
    _, issues, ids = await queue(manual_bot, 1)
    await manual_bot.take(ids[0])
    await waiting(manual_bot).announce()
    assert issues[0].comments == []


async def test_a_github_that_is_away_leaves_the_queue_as_it_is(manual_bot: BotHarness) -> None:
    repo, issues, ids = await queue(manual_bot, 1)
    manual_bot.hub.limit_rate(0, 600)
    await waiting(manual_bot).announce()
    run = await manual_bot.runs.get_latest(ref_of(repo), issues[0].number)
    assert run is not None
    assert (run.id, run.queue_position, run.status) == (ids[0], 0, RunStatus.QUEUED)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "next in"),
        ((0, 100), "within two minutes"),
        ((10, 600), "within 10 minutes"),
        ((600, 900), "in 10–15 minutes"),
        ((600, 610), "in about 10 minutes"),
        ((4000, 9000), "in 1–2 hours"),
    ],
)
def test_the_expected_time_is_as_rough_as_it_is_known(
    seconds: tuple[float, float] | None, said: str
) -> None:
    assert said in render_queued(a_run(), QueuePosition(position=1, expected_seconds=seconds))


def marked(run: Run, text: str) -> str:
    return f"{text}\n{comments.status_marker(run.id)}"
