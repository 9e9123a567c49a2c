"""The one comment on the issue that says how a run stands, edited in place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from bot.comments import status as comments
from bot.errors import LeaseLost
from bot.github.errors import Forbidden, GitHubError
from bot.github.repository import Repository
from bot.storage.lease import Lease
from bot.storage.progress import Progress
from bot.triggers.labels import LabelSet
from bot.types import Run, RunStatus, StopReason, replace

_SUCCESSFUL = (
    RunStatus.OPENED_PULL_REQUEST,
    RunStatus.PLANNED,
    RunStatus.JUDGED,
    RunStatus.SWAPPED,
)
_MAX_CLOCK_SKEW = timedelta(hours=1)
"""By how much GitHub's clock and ours may differ, at most."""


class StatusComment:
    """The comment of one run. Find-or-create: a second worker goes on with the first one's.

    Edits are `every` seconds apart, whichever worker makes them; what was said last wins. A comment
    that a person deleted is let be until the run's end, whose word is a new comment.
    """

    def __init__(self, repo: Repository, lease: Lease, *, every: float) -> None:
        self._repo = repo
        self._lease = lease
        self._every = every
        self._latest = Progress()
        self._news = asyncio.Event()

    async def write(self, run: Run, text: str) -> int | None:
        """Make the comment say `text`; its id, or None where comments are not allowed.

        Raises:
            LeaseLost, GitHubUnavailable, NotFound: the issue is gone.
        """
        if run.comment_id is None:
            return await self._find_or_create(run, text)
        async with self._throttle():
            with suppress(Forbidden):
                await self._repo.issues.edit_comment(run.comment_id, text)
        return run.comment_id

    async def write_final(self, run: Run, text: str) -> int | None:
        """Write the last word, in a new comment if the first was deleted. As `write` otherwise."""
        if run.comment_id is not None:
            async with self._throttle():
                with suppress(Forbidden):
                    if await self._repo.issues.edit_comment(run.comment_id, text):
                        return run.comment_id
        return await self._find_or_create(run, text)

    def update(self, progress: Progress) -> None:
        """Show `progress` soon; overtaken by a later `update`."""
        self._latest = progress
        self._news.set()

    @asynccontextmanager
    async def show_updates(self, run: Run) -> AsyncGenerator[None, None]:
        """While the block runs, what was last said appears, at most once in `every` seconds."""
        task = asyncio.create_task(self._write_updates(run))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _find_or_create(self, run: Run, text: str) -> int | None:
        issues = self._repo.issues
        marker = comments.status_marker(run.id)
        since = run.created_at - _MAX_CLOCK_SKEW
        try:
            async with self._throttle():
                comment = await issues.comment_once(run.issue, marker, text, since=since)
            if comment.body != text:
                async with self._throttle():
                    await issues.edit_comment(comment.id, text)
        except Forbidden:  # locked, or the repository was archived
            return None
        return comment.id

    async def _write_updates(self, run: Run) -> None:
        there = run.comment_id is not None
        while True:
            await self._news.wait()
            try:
                async with self._throttle():
                    self._news.clear()
                    progress = self._latest
                    await self._lease.storage.progress.save(run.id, progress)
                    if there and run.comment_id is not None:
                        text = comments.render_progress(run, progress)
                        there = await self._repo.issues.edit_comment(run.comment_id, text)
            except LeaseLost:  # the run itself will learn of it
                return
            except GitHubError:  # news can wait; the outcome is written with care
                pass

    @asynccontextmanager
    async def _throttle(self) -> AsyncGenerator[None, None]:
        """Around a write: at least `every` seconds after the last, whoever made that one."""
        turns, run_id = self._lease.storage.turns, self._lease.run.id
        await turns.wait_for_edit(run_id, self._every)
        await self._lease.require()
        try:
            yield
        finally:
            await turns.mark_edited(run_id, self._every)  # counted from when GitHub had it


async def finish_status(
    repo: Repository, lease: Lease, run: Run, text: str, *, label: str, every: float
) -> Run:
    """The last word on the issue, then what `clean_up_issue` does. `run` with its comment.

    Raises:
        LeaseLost, GitHubUnavailable. NotFound: the issue is gone.
    """
    comment = await StatusComment(repo, lease, every=every).write_final(run, text)
    run = replace(run, comment_id=comment, end_reported=True, end_status=run.status)
    await lease.save(replace(run, status=RunStatus.RUNNING))
    return await clean_up_issue(repo, lease, run, label=label)


async def clean_up_issue(repo: Repository, lease: Lease, run: Run, *, label: str) -> Run:
    """The reaction and the label of an issue whose run has said its last word; `run` itself.

    The label that the run answers is taken off; `label` is ours without a suffix. It goes last:
    until then a crash leaves the issue marked as unfinished. Raises as `finish_status`.
    """
    won = run.status in _SUCCESSFUL
    # What a locked issue forbids is left out; the record says how the run ended.
    await lease.require()
    with suppress(Forbidden):
        await repo.issues.react(run.issue, "rocket" if won else "confused")
    await lease.require()
    with suppress(Forbidden):
        await repo.issues.unreact(run.issue, "eyes")
    await remove_run_label(repo, lease, run, label=label)
    return run


async def _is_label_newer_than_stop(repo: Repository, run: Run, label: str) -> bool:
    stop = run.stop if run.status is RunStatus.STOPPED else None
    if stop is None or stop.why is not StopReason.COMMAND or stop.at is None:
        return False
    put = await repo.issues.find_labeler(run.issue, label)
    return put is not None and put[1] > stop.at


async def remove_run_label(repo: Repository, lease: Lease, run: Run, *, label: str) -> None:
    """Take off the label that the run answers, unless a stop ended it and the label is younger.

    Raises as `finish_status`.
    """
    answered = LabelSet(label).label_to_remove(run)
    if answered and await _is_label_newer_than_stop(repo, run, answered):
        return
    await lease.require()
    with suppress(Forbidden):
        await repo.issues.remove_label(run.issue, answered)
