"""The one comment that shows the state of a run, with its place in the queue."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from bot.admission.check import check_admission
from bot.comments import status as status_module
from bot.comments.status import render_no_worker, render_queued
from bot.data.progress import Progress
from bot.data.run import QueuePosition, Run, RunStatus, StopReason
from bot.errors import (
    Forbidden,
    GitHubError,
    LeaseLost,
    NotFound,
    RunFailed,
    RunRefused,
    translate_errors,
)
from bot.github.app import GitHubApp
from bot.github.repository import Repository
from bot.queue.position import NO_WORKER, Announce
from bot.safe_text import make_marker
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.webhooks.labels import LabelSet
from sandbox.frozen import replace


class StatusComment:
    """What people see of one run on its issue: a comment, a reaction, and the label that began it.

    Find-or-create: a second worker continues with the first one's comment. Progress is written
    `Timings.status_seconds` after the last edit of any worker; the latest text wins. When a person
    deletes the comment, the run writes no other until its end.

    Raises:
        LeaseLost, GitHubUnavailable. NotFound: the issue is gone.
    """

    def __init__(self, repo: Repository, lease: Lease, settings: Settings) -> None:
        self._repo = repo
        self._lease = lease
        self._settings = settings
        self._latest = Progress()
        self._news = asyncio.Event()

    async def write(self, run: Run, text: str, *, last: bool = False) -> int | None:
        """Write `text` into the comment; returns its id, None where comments are not allowed.

        Only the `last` text goes into a new comment if the first was deleted.
        """
        if run.comment_id is not None:
            async with self._edit():
                with suppress(Forbidden):
                    if await self._repo.issues.edit_comment(run.comment_id, text) or not last:
                        return run.comment_id
            if not last:
                return run.comment_id
        return await self._find_or_create(run, text)

    def update(self, progress: Progress) -> None:
        self._latest = progress
        self._news.set()

    @asynccontextmanager
    async def show_updates(self, run: Run) -> AsyncGenerator[None, None]:
        """During the block, write the latest update, but no faster than the edits may be."""
        task = asyncio.create_task(self._write_updates(run))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _find_or_create(self, run: Run, text: str) -> int | None:
        issues = self._repo.issues
        marker = status_module.status_marker(run.id)
        # GitHub's clock and ours may differ.
        since = run.created_at - timedelta(hours=1)
        try:
            async with self._edit():
                comment = await issues.comment_once(run.issue, marker, text, since=since)
            if comment.body != text:
                async with self._edit():
                    await issues.edit_comment(comment.id, text)
        except Forbidden:  # locked, or the repository was archived
            return None
        return comment.id

    async def _write_updates(self, run: Run) -> None:
        there = run.comment_id is not None
        written = ""
        while True:
            await self._news.wait()
            try:
                async with self._edit(wait=True):
                    self._news.clear()
                    progress = self._latest
                    await self._lease.storage.progress.save(run.id, progress)
                    if there and run.comment_id is not None:
                        text = status_module.render_progress(run, progress)
                        if text == written:
                            continue
                        there = await self._repo.issues.edit_comment(
                            run.comment_id, text, minor=True
                        )
                        written = text
            except LeaseLost:  # the run itself notices, too
                return
            except GitHubError:  # the next update follows; the final comment is retried
                pass

    async def finish(self, run: Run, text: str, *, brief: str = "") -> Run:
        """Write the final comment, then clean up the issue; returns `run` with its comment.

        `brief`: what the issue has of `text` where that stands on the pull request.
        """
        if run.asked_on:
            marker = make_marker("result", f"run={run.id}")
            await self._lease.require()
            with suppress(Forbidden, NotFound):  # locked, or gone
                body = f"{text}\n\n{marker}\n"
                await self._repo.issues.comment_once(run.asked_on, marker, body)
                text = brief or text
        comment = await self.write(run, text, last=True)
        run = replace(run, comment_id=comment, end_reported=True, end_status=run.status)
        await self._lease.save(replace(run, status=RunStatus.RUNNING))
        return await self.clean_up(run)

    async def clean_up(self, run: Run) -> Run:
        """Set the final reaction and remove the label that started the run; returns `run`.

        The label is removed last: until then a crash leaves the issue marked as unfinished.
        """
        won = run.status in (
            RunStatus.OPENED_PULL_REQUEST,
            RunStatus.PLANNED,
            RunStatus.JUDGED,
            RunStatus.SWAPPED,
        )
        # A locked issue forbids these; the record shows how the run ended.
        reactions = self._repo.issues.reactions(run.issue)
        await self._lease.require()
        with suppress(Forbidden):
            await reactions.add("rocket" if won else "confused")
        await self._lease.require()
        with suppress(Forbidden):
            await reactions.remove("eyes")
        await self.remove_label(run)
        return run

    async def remove_label(self, run: Run) -> None:
        """Remove the label that started the run, unless it was added again after a stop."""
        answered = LabelSet(self._settings.label).label_to_remove(run)
        if answered and await self._is_label_newer_than_stop(run, answered):
            return
        await self._lease.require()
        with suppress(Forbidden):
            await self._repo.issues.remove_label(run.issue, answered)

    async def _is_label_newer_than_stop(self, run: Run, label: str) -> bool:
        stop = run.stop if run.status is RunStatus.STOPPED else None
        if stop is None or stop.why is not StopReason.COMMAND or stop.at is None:
            return False
        put = await self._repo.issues.find_labeler(run.issue, label)
        return put is not None and put[1] > stop.at

    @asynccontextmanager
    async def _edit(self, *, wait: bool = False) -> AsyncGenerator[None, None]:
        """Write in the block; with `wait`, some seconds after the last write of any worker."""
        turns, run_id = self._lease.storage.turns, self._lease.run.id
        every = self._settings.timings.status_seconds
        if wait:
            await turns.wait_for_edit(run_id, every)
        await self._lease.require()
        try:
            yield
        finally:
            await turns.mark_edited(run_id, every)  # GitHub has the text


def build_announcer(github: GitHubApp, settings: Settings) -> Announce:
    """A function that announces queue positions of runs that may begin.

    A run that may not begin is refused on its turn, so its position is not announced.
    """

    async def announce(lease: Lease, wait: QueuePosition) -> Run:
        no_worker = wait.position == NO_WORKER
        run = replace(lease.run, page_url=settings.page_url(lease.run.id))
        try:
            with translate_errors():
                async with github.open_repository(run.repo, minor=True) as repo:
                    await check_admission(repo, run, lease.storage.quota, settings)
                    text = render_no_worker(run) if no_worker else render_queued(run, wait)
                    comment = await StatusComment(repo, lease, settings).write(run, text)
        except (RunRefused, RunFailed, GitHubError):  # the run itself reports it
            return lease.run
        return replace(run, comment_id=comment)

    return announce
