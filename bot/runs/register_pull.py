"""From a pull request that has just been opened to one that is looked after."""

from __future__ import annotations

from typing import Final

from bot.github.models import PullRequestFacts
from bot.publish.publish import Answer
from bot.storage.checkpoints import RedisStore
from bot.storage.client import patiently
from bot.storage.lease import Lease
from bot.storage.pulls import PullRecord, Records
from bot.storage.runs import Runs
from bot.types import Mode

LOOK_IN_SECONDS: Final = 3600.0
"""The first run is created at once; this is for when it is lost."""
PREPARED_KEY: Final = "pull-record"
"""The checkpoint that holds what is to be kept of a pull request that is about to be opened."""


async def prepare(lease: Lease, answer: Answer, *, base: str) -> None:
    """Note what will have to be known of the pull request, whoever finds it open."""
    run = lease.run
    test = answer.selection.evidence.reproduction
    record = PullRecord(
        repo=run.repo,
        pull=0,
        issue=run.issue,
        about=answer.issue,
        asked_by=run.asked_by,
        manners=answer.manners,
        branch="",
        base=base,
        head="",
        test_path=test.path,
        command=test.command,
        ready_when_green=answer.until_green,
    )
    await RedisStore.of(lease).save(PREPARED_KEY, record)


async def keep(lease: Lease, pull: PullRequestFacts) -> None:
    """Record the pull request and have its evidence gathered. Done again, it changes nothing.

    Nothing is done of one that was not prepared.

    Raises:
        LeaseLost: another worker goes on.
    """
    run = lease.run
    prepared = await RedisStore.of(lease).load(PREPARED_KEY, PullRecord)
    if prepared is None:
        return
    records = Records(lease.redis, lease.keys)
    await lease.require()
    if await patiently(lambda: records.get(run.repo, pull.number)) is None:
        opened = {
            "pull": pull.number,
            "branch": pull.head_branch,
            "head": run.head_commit,
            "ready_when_green": prepared.ready_when_green and pull.draft,
        }
        record = prepared.model_copy(update=opened)
        await patiently(lambda: records.put(record, look_in=LOOK_IN_SECONDS))
    runs = Runs(lease.redis, lease.keys.prefix)
    await patiently(
        lambda: runs.create(
            run.repo,
            pull.number,
            asked_by=run.asked_by,
            delivery=f"opened-{run.id}",
            mode=Mode.TEND,
        )
    )
