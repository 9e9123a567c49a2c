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
from bot.storage.client import UNREACHABLE, patiently
from bot.storage.keys import RECORD_SECONDS
from bot.storage.lease import Lease
from bot.storage.progress import Progress
from bot.triggers.labels import answered_by
from bot.types import Run, RunStatus, StopReason, changed

_ANSWERED = (
    RunStatus.OPENED_PULL_REQUEST,
    RunStatus.PLANNED,
    RunStatus.JUDGED,
    RunStatus.SWAPPED,
)
_CLOCKS_APART = timedelta(hours=1)
"""By how much GitHub's clock and ours may differ, at most."""


class Status:
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

    async def begin(self, run: Run, text: str) -> int | None:
        """Make the comment say `text`; its id, or None where comments are not allowed.

        Raises:
            LeaseLost, GitHubUnavailable, NotFound: the issue is gone.
        """
        if run.comment_id is None:
            return await self._found_or_made(run, text)
        async with self._turn():
            with suppress(Forbidden):
                await self._repo.issues.edit_comment(run.comment_id, text)
        return run.comment_id

    async def end(self, run: Run, text: str) -> int | None:
        """Write the last word, in a new comment if the first was deleted. As `begin` otherwise."""
        if run.comment_id is not None:
            async with self._turn():
                with suppress(Forbidden):
                    if await self._repo.issues.edit_comment(run.comment_id, text):
                        return run.comment_id
        return await self._found_or_made(run, text)

    def say(self, progress: Progress) -> None:
        """Show `progress` soon; overtaken by a later `say`."""
        self._latest = progress
        self._news.set()

    @asynccontextmanager
    async def shown(self, run: Run) -> AsyncGenerator[None, None]:
        """While the block runs, what was last said appears, at most once in `every` seconds."""
        task = asyncio.create_task(self._show(run))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _found_or_made(self, run: Run, text: str) -> int | None:
        issues = self._repo.issues
        marker = comments.status_marker(run.id)
        since = run.created_at - _CLOCKS_APART
        try:
            async with self._turn():
                comment = await issues.comment_once(run.issue, marker, text, since=since)
            if comment.body != text:
                async with self._turn():
                    await issues.edit_comment(comment.id, text)
        except Forbidden:  # locked, or the repository was archived
            return None
        return comment.id

    async def _show(self, run: Run) -> None:
        there = run.comment_id is not None
        while True:
            await self._news.wait()
            try:
                async with self._turn():
                    self._news.clear()
                    progress = self._latest
                    await self._keep(run, progress)
                    if there and run.comment_id is not None:
                        text = comments.working(run, progress)
                        there = await self._repo.issues.edit_comment(run.comment_id, text)
            except LeaseLost:  # the run itself will learn of it
                return
            except GitHubError:  # news can wait; the outcome is written with care
                pass

    async def _keep(self, run: Run, progress: Progress) -> None:
        """For the run's page. Lost with Redis; the next news brings it back."""
        keys = self._lease.keys
        with suppress(*UNREACHABLE):
            text = progress.model_dump_json()
            await self._lease.redis.set(keys.told(run.id), text, ex=RECORD_SECONDS)

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None, None]:
        """Around a write: at least `every` seconds after the last, whoever made that one."""
        redis, key = self._lease.redis, self._lease.keys.edited(self._lease.run.id)
        pause = int(self._every * 1000)
        while pause and not await patiently(lambda: redis.set(key, "1", nx=True, px=pause)):
            left = await patiently(lambda: redis.pttl(key))
            await asyncio.sleep(max(left, 1) / 1000)
        await self._lease.require()
        try:
            yield
        finally:
            if pause:  # counted from when GitHub had it
                with suppress(*UNREACHABLE):
                    await redis.set(key, "1", px=pause)


async def closed(
    repo: Repository, lease: Lease, run: Run, told: str, *, label: str, every: float
) -> Run:
    """The last word on the issue, then what `tidied` does. `run` with its comment.

    Raises:
        LeaseLost, GitHubUnavailable. NotFound: the issue is gone.
    """
    comment = await Status(repo, lease, every=every).end(run, told)
    run = changed(run, comment_id=comment, told=True, ends_as=run.status)
    await lease.save(changed(run, status=RunStatus.RUNNING))
    return await tidied(repo, lease, run, label=label)


async def tidied(repo: Repository, lease: Lease, run: Run, *, label: str) -> Run:
    """The reaction and the label of an issue whose run has said its last word; `run` itself.

    The label that the run answers is taken off; `label` is ours without a suffix. It goes last:
    until then a crash leaves the issue marked as unfinished. Raises as `closed`.
    """
    won = run.status in _ANSWERED
    # What a locked issue forbids is left out; the record says how the run ended.
    await lease.require()
    with suppress(Forbidden):
        await repo.issues.react(run.issue, "rocket" if won else "confused")
    await lease.require()
    with suppress(Forbidden):
        await repo.issues.unreact(run.issue, "eyes")
    await label_off(repo, lease, run, label=label)
    return run


async def _asked_after_stop(repo: Repository, run: Run, label: str) -> bool:
    stop = run.stop if run.status is RunStatus.STOPPED else None
    if stop is None or stop.why is not StopReason.COMMAND or stop.at is None:
        return False
    put = await repo.issues.labelled_by(run.issue, label)
    return put is not None and put[1] > stop.at


async def label_off(repo: Repository, lease: Lease, run: Run, *, label: str) -> None:
    """Take off the label that the run answers, unless a stop ended it and the label is younger.

    Raises as `closed`.
    """
    answered = answered_by(run, label)
    if answered and await _asked_after_stop(repo, run, answered):
        return
    await lease.require()
    with suppress(Forbidden):
        await repo.issues.remove_label(run.issue, answered)
