"""From a pull request that has just been opened to one that is looked after."""

from __future__ import annotations

from typing import Final

from bot.github.models import PullRequestFacts
from bot.publish.publish import Publication
from bot.storage.lease import Lease
from bot.storage.pulls import PullRecord
from bot.types import Mode

CHECK_BACK_SECONDS: Final = 3600.0
"""The first run is created at once; this is for when it is lost."""
PREPARED_KEY: Final = "pull-record"
"""The checkpoint that holds what is to be kept of a pull request that is about to be opened."""


async def prepare_record(lease: Lease, publication: Publication, *, base: str) -> None:
    """Note what will have to be known of the pull request, whoever finds it open."""
    run = lease.run
    test = publication.selection.evidence.reproduction
    record = PullRecord(
        repo=run.repo,
        pull=0,
        issue=run.issue,
        source_issue=publication.issue,
        asked_by=run.asked_by,
        commit_style=publication.commit_style,
        branch="",
        base=base,
        head="",
        test_path=test.path,
        command=test.command,
        ready_when_green=publication.ready_when_green,
    )
    await lease.checkpoints.save(PREPARED_KEY, record)


async def register_pull(lease: Lease, pull: PullRequestFacts) -> None:
    """Record the pull request and have its evidence gathered. Done again, it changes nothing.

    Nothing is done of one that was not prepared.

    Raises:
        LeaseLost: another worker goes on.
    """
    run = lease.run
    prepared = await lease.checkpoints.load(PREPARED_KEY, PullRecord)
    if prepared is None:
        return
    await lease.require()
    if await lease.storage.pulls.get(run.repo, pull.number) is None:
        opened = {
            "pull": pull.number,
            "branch": pull.head_branch,
            "head": run.head_commit,
            "ready_when_green": prepared.ready_when_green and pull.draft,
        }
        record = prepared.model_copy(update=opened)
        await lease.storage.pulls.put(record, due_in=CHECK_BACK_SECONDS)
    await lease.storage.runs.create(
        run.repo,
        pull.number,
        asked_by=run.asked_by,
        delivery=f"opened-{run.id}",
        mode=Mode.FOLLOW_UP,
    )
