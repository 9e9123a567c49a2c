"""From a pull request that has just been opened to one that is looked after."""

from __future__ import annotations

from bot.github.facts import PullRequestFacts
from bot.lease import Lease
from bot.publish import Answer
from bot.redis_client import patiently
from bot.runs import Runs
from bot.tend.record import PullRecord, Records
from bot.types import Mode

LOOK_IN_SECONDS = 3600.0
"""The first run is created at once; this is for when it is lost."""


async def keep(
    lease: Lease,
    answer: Answer,
    pull: PullRequestFacts,
    *,
    base: str,
) -> None:
    """Record the pull request and have its evidence gathered. Done again, it changes nothing.

    Raises:
        LeaseLost: another worker goes on.
    """
    run = lease.run
    records = Records(lease.redis, lease.keys)
    await lease.require()
    if await patiently(lambda: records.get(run.repo, pull.number)) is None:
        test = answer.selection.evidence.reproduction
        record = PullRecord(
            repo=run.repo,
            pull=pull.number,
            issue=run.issue,
            about=answer.issue,
            asked_by=run.asked_by,
            manners=answer.manners,
            branch=pull.head_branch,
            base=base,
            head=run.head_commit,
            test_path=test.path,
            command=test.command,
            ready_when_green=answer.until_green and pull.draft,
        )
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
