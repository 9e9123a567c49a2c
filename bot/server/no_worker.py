"""Says on the issues that wait, and in the log, that no worker lives: nobody waits unheard."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from bot.queue.nudges import Nudges
from bot.settings import Settings
from bot.storage.client import UNREACHABLE
from bot.storage.storage import Storage
from bot.types import now

if TYPE_CHECKING:
    from bot.queue.position import QueueAnnouncer

POLL_SECONDS: Final = 30.0

logger = logging.getLogger(__name__)


class NoWorkerWatch:
    """One for each server; it needs the App's key, and only logs without it."""

    def __init__(self, settings: Settings, storage: Storage, nudges: Nudges) -> None:
        self._settings = settings
        self._storage = storage
        self._nudges = nudges
        self._since = now()
        """When this server began to look, for a Redis that has never heard of a worker."""
        self._logged = False
        self._announcer: QueueAnnouncer | None = None

    async def run(self) -> None:
        """Look every half minute, until cancelled."""
        while True:
            try:
                await self.look()
            except UNREACHABLE:  # the webhooks that arrive log it
                pass
            except Exception:  # the server goes on without this
                logger.exception("Could not say that no worker lives")
            await asyncio.sleep(min(POLL_SECONDS, self._settings.timings.no_worker_seconds or 0.2))

    async def look(self) -> None:
        """Tell each waiting run one time, if no worker was heard of for too long.

        Raises redis-py's errors.
        """
        last = await self._storage.workers.get_last_heartbeat()
        silent = now() - max(last or self._since, self._since)
        patience = timedelta(seconds=self._settings.timings.no_worker_seconds)
        if silent < patience or await self._storage.workers.list_living():
            self._logged = False
            return
        if not self._logged:
            self._logged = True
            logger.error(
                "No worker was heard of for %d minutes: runs wait. Start `capuchin worker`.",
                silent.total_seconds() // 60,
            )
        if not await self._storage.runs.list_active():
            return
        if self._announcer is None:
            self._announcer = self._build_announcer()
        if self._announcer is not None:
            await self._announcer.announce_no_worker()

    def _build_announcer(self) -> QueueAnnouncer | None:
        if not (self._settings.github_app_id and self._settings.github_private_key):
            return None
        # Imported when first needed: most servers only ever hear webhooks.
        from bot.github.app import GitHubApp
        from bot.queue.position import QueueAnnouncer
        from bot.runs.queue_notice import build_announcer

        announce = build_announcer(GitHubApp(self._settings), self._settings)
        return QueueAnnouncer(self._storage, self._nudges, announce)
