"""Registers a pull request for follow-up, right after it was opened."""

from __future__ import annotations

from typing import Final

from bot.github.models import PullRequestFacts
from bot.publish.publish import Publication
from bot.storage.lease import Lease
from bot.storage.pulls import PullRecord
from bot.types import CommitSha, Mode, replace
from pipeline.edits.unified_diff import list_paths

CHECK_BACK_SECONDS: Final = 3600.0
"""When to look again if the first follow-up run, which is created at once, gets lost."""
PREPARED_KEY: Final = "pull-record"
"""The checkpoint with the record of the pull request that is about to be opened."""


async def prepare_record(lease: Lease, publication: Publication, *, base: CommitSha) -> None:
    """Save what a later worker must know if it finds the pull request open."""
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
        head=CommitSha(""),
        test_path=test.path,
        test_files=tuple(sorted(list_paths(test.diff))),
        proven=publication.selection.is_proven,
        command=test.command,
        ready_when_green=publication.ready_when_green,
    )
    await lease.checkpoints.save(PREPARED_KEY, record)


async def register_pull(lease: Lease, pull: PullRequestFacts) -> None:
    """Record the pull request and create its first follow-up run. Calling it again changes nothing.

    Does nothing for a pull request that `prepare_record` did not prepare.

    Raises:
        LeaseLost: another worker has the run.
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
        record = replace(prepared, **opened)
        await lease.storage.pulls.put(record, due_in=CHECK_BACK_SECONDS)
    await lease.storage.runs.create(
        run.repo,
        pull.number,
        asked_by=run.asked_by,
        delivery=f"opened-{run.id}",
        mode=Mode.FOLLOW_UP,
    )
