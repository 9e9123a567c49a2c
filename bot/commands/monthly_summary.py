"""The monthly summary: an issue with what `stats` says of the last calendar month."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bot.commands.stats import load_stats
from bot.comments import stats as replies
from bot.errors import RunFailed
from bot.failures import translate_errors
from bot.github.app import GitHubApp
from bot.github.errors import Unprocessable
from bot.repo_config.layers import LayerProblem
from bot.repo_config.load import read_config
from bot.storage.storage import Storage
from bot.types import RepoRef, now

logger = logging.getLogger(__name__)


class Month(NamedTuple):
    """A calendar month (UTC)."""

    begins: datetime
    ends: datetime
    """When the next one begins."""

    @property
    def name(self) -> str:
        """Such as `October 2026`."""
        return f"{self.begins:%B %Y}"

    @property
    def key(self) -> str:
        """Such as `2026-10`."""
        return f"{self.begins:%Y-%m}"


def last_month(at: datetime) -> Month:
    """The month before that of `at`."""
    ends = at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return Month((ends - timedelta(days=1)).replace(day=1), ends)


async def write_summaries(github: GitHubApp, storage: Storage) -> None:
    """Write the summary of the last month wherever it is wanted and the bot worked in it.

    A repository without runs in that month costs no call to GitHub; one that wants no summary is
    asked again after a day. Raises redis-py's errors.

    Raises:
        TryLater: GitHub does not answer.
    """
    month = last_month(now())
    with translate_errors():
        async for ref in github.list_repositories():
            if not await storage.turns.is_summary_due(ref, month.key):
                continue
            if not (await storage.history.load(ref, month.begins, month.ends)).entries:
                continue
            written = await _write_summary(github, storage, ref, month)
            await storage.turns.mark_summary(ref, month.key, written=written)


async def _write_summary(github: GitHubApp, storage: Storage, ref: RepoRef, month: Month) -> bool:
    """Whether the summary is there; False where it is not wanted or not possible."""
    try:
        with translate_errors():
            async with github.open_repository(ref) as repo:
                found = await read_config(repo)
                if isinstance(found, LayerProblem):
                    return False
                if not (found.config.enabled and found.config.monthly_summary):
                    return False
                period = f"in {month.name}"
                stats = await load_stats(repo, storage.history, period, month.begins, month.ends)
                marker = replies.summary_marker(month.key)
                opened = await repo.issues.open_once(
                    f"Summary of {month.name}",
                    replies.render_summary(stats, marker),
                    marker,
                    since=month.ends,
                )
    except (RunFailed, Unprocessable) as error:  # the repository is gone, or has no issues
        logger.info("No summary of %s: %s", ref.full_name, error)
        return False
    logger.info("Issue %d of %s has the summary of %s", opened.number, ref.full_name, month.name)
    return True
