"""Writes a run's place in the queue into its status comment."""

from __future__ import annotations

from bot.admission.check import check_admission
from bot.comments.queue import render_no_worker, render_queued
from bot.errors import RunFailed, RunRefused
from bot.failures import translate_errors
from bot.github.app import GitHubApp
from bot.github.errors import GitHubError
from bot.links import run_page_url
from bot.queue.position import NO_WORKER, Announce
from bot.runs.status_comment import StatusComment
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.types import QueuePosition, Run, replace


def build_announcer(github: GitHubApp, settings: Settings) -> Announce:
    """A function that announces queue positions of runs that may begin.

    A run that may not begin is refused on its turn, so its position is not announced.
    """

    async def announce(lease: Lease, wait: QueuePosition) -> Run:
        no_worker = wait.position == NO_WORKER
        run = replace(lease.run, page_url=run_page_url(settings, lease.run.id))
        try:
            with translate_errors():
                async with github.open_repository(run.repo, minor=True) as repo:
                    await check_admission(repo, run, lease, settings)
                    status = StatusComment(repo, lease, every=settings.timings.status_seconds)
                    text = render_no_worker(run) if no_worker else render_queued(run, wait)
                    comment = await status.write(run, text)
        except (RunRefused, RunFailed, GitHubError):  # the run itself reports it
            return lease.run
        return replace(run, comment_id=comment)

    return announce
