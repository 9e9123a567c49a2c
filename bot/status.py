"""The one comment on the issue that says how a run stands, edited in place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from bot import comments
from bot.errors import LeaseLost
from bot.github.errors import Forbidden, GitHubError
from bot.github.repository import Repository
from bot.lease import Lease
from bot.types import Run, RunStatus, changed

EDIT_SECONDS = 5.0
"""Progress is shown at most this often: GitHub limits how much an App may write."""


class Status:
    """The comment of one run. Find-or-create: a second worker goes on with the first one's."""

    def __init__(self, repo: Repository, lease: Lease, *, every: float = EDIT_SECONDS) -> None:
        self._repo = repo
        self._lease = lease
        self._every = every
        self._text = ""
        self._news = asyncio.Event()

    async def write(self, run: Run, text: str) -> int | None:
        """Make the comment say `text`; its id, or None where comments are not allowed.

        Raises:
            LeaseLost, GitHubUnavailable, NotFound: the issue is gone.
        """
        await self._lease.require()
        issues = self._repo.issues
        try:
            if run.comment_id is not None and await issues.edit_comment(run.comment_id, text):
                return run.comment_id
            marker = comments.status_marker(run.id)
            comment = await issues.comment_once(run.issue, marker, text)
            if comment.body != text:
                await issues.edit_comment(comment.id, text)
        except Forbidden:  # locked, or the repository was archived
            return None
        return comment.id

    def say(self, text: str) -> None:
        """Show `text` soon; overtaken by a later `say`."""
        self._text = text
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

    async def _show(self, run: Run) -> None:
        while run.comment_id is not None:
            await self._news.wait()
            self._news.clear()
            try:
                await self._lease.require()
                await self._repo.issues.edit_comment(run.comment_id, self._text)
            except LeaseLost:  # the run itself will learn of it
                return
            except GitHubError:  # news can wait; the outcome is written with care
                pass
            await asyncio.sleep(self._every)


async def closed(repo: Repository, lease: Lease, run: Run, told: str, label: str) -> Run:
    """The last word on the issue: comment, reaction, label. `run` with its comment.

    The label goes last: until then a crash leaves the issue marked as unfinished.

    Raises:
        LeaseLost, GitHubUnavailable. NotFound: the issue is gone.
    """
    won = run.status is RunStatus.OPENED_PULL_REQUEST
    comment = await Status(repo, lease).write(run, told)
    run = changed(run, comment_id=comment)
    try:
        await lease.require()
        await repo.issues.react(run.issue, "rocket" if won else "confused")
        await lease.require()
        await repo.issues.unreact(run.issue, "eyes")
        await lease.require()
        await repo.issues.remove_label(run.issue, label)
    except Forbidden:  # locked or archived: the record alone says how it ended
        pass
    return run
