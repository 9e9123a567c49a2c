"""How a repository's runs ended: each is kept once, and only for so long."""

from datetime import timedelta

import pytest

from bot.data.run import Login, Mode, RepoRef, RunStatus, now
from bot.errors import LeaseLost
from bot.storage.history import HISTORY_SECONDS, RunHistory, RunHistoryEntry
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from sandbox.frozen import replace

REPO = RepoRef(id=1, owner="acme", name="shop", installation=1)


async def taken(storage: Storage, issue: int, mode: Mode = Mode.FIX) -> Lease:
    asked = await storage.runs.create(
        REPO, issue, asked_by=Login("ann"), delivery=f"guid-{issue}", mode=mode
    )
    lease = await Lease.acquire(storage, asked.run_id, worker="w", seconds=120)
    assert lease is not None
    return lease


async def ended(storage: Storage, days: int = 90) -> RunHistory:
    return await storage.history.load(REPO, now() - timedelta(days=days))


async def test_a_run_is_kept_once_and_what_cost_and_did_nothing_not_at_all(
    storage: Storage,
) -> None:
    lease = await taken(storage, 7)
    done = replace(
        lease.run, status=RunStatus.OPENED_PULL_REQUEST, pull_request=12, dollars=0.5
    )  # fmt: skip
    await lease.finish(done)
    with pytest.raises(LeaseLost):  # as after a crash, or when the answer was lost
        await lease.finish(done)
    for issue, dollars in ((12, 0.0), (13, 0.25)):
        tending = await taken(storage, issue, Mode.FOLLOW_UP)
        await tending.finish(replace(tending.run, status=RunStatus.FOLLOWED_UP, dollars=dollars))
        tended = tending.run.id
    found = await ended(storage)
    assert found.entries == [
        RunHistoryEntry(
            run=done.id, status=done.status, mode=Mode.FIX, pull=12, candidate=1, dollars=0.5
        ),
        RunHistoryEntry(
            run=tended, status=RunStatus.FOLLOWED_UP, mode=Mode.FOLLOW_UP, pull=13, dollars=0.25
        ),
    ]
    assert found.begins_at is not None


async def test_it_is_kept_for_a_year_and_counted_from_the_asked_day_on(storage: Storage) -> None:
    for issue, days in ((1, 400), (2, 200), (3, 1)):
        lease = await taken(storage, issue)
        at = now() - timedelta(days=days)
        await lease.finish(replace(lease.run, status=RunStatus.FAILED, finished_at=at))
    assert [len((await ended(storage, days)).entries) for days in (2, 300, 500)] == [1, 2, 2]
    begins = (await ended(storage, 2)).begins_at
    assert begins is not None
    assert (now() - begins).days == 200
    await storage.redis.zadd(
        storage.keys.of_repository("history", REPO), {b'{"of": "a newer one"}': 2e9}
    )
    assert len((await ended(storage)).entries) == 1
    assert (
        0 < await storage.redis.ttl(storage.keys.of_repository("history", REPO)) <= HISTORY_SECONDS
    )
