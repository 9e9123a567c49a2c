"""Tells people their place in the queue."""

from __future__ import annotations

from bot.admission.check import admitted
from bot.comments import status as comments
from bot.errors import Ended, Refused
from bot.failures import judged
from bot.github.app import GitHubApp
from bot.github.errors import GitHubError
from bot.links import run_page
from bot.queue.position import Announce
from bot.runs.status_comment import Status
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.types import Run, Wait, changed


def announce_with(github: GitHubApp, settings: Settings) -> Announce:
    """Announces at GitHub, to those whose run will be worked on; others hear of theirs then."""

    async def announce(lease: Lease, wait: Wait) -> Run:
        run = changed(lease.run, page=run_page(settings, lease.run.id))
        try:
            with judged():
                async with github.repository(run.repo) as repo:
                    await admitted(repo, run, lease, settings)
                    status = Status(repo, lease, every=settings.status_seconds)
                    comment = await status.begin(run, comments.queued(run, wait))
        except (Refused, Ended, GitHubError):  # the run itself tells
            return lease.run
        return changed(run, comment_id=comment)

    return announce
