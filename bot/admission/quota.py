"""Daily quotas of runs: for each person, each repository and each installation."""

from __future__ import annotations

from bot.repo_config.model import Quota
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.types import QuotaLimit, Run, now


async def claim_quota(
    lease: Lease, run: Run, quota: Quota, settings: Settings
) -> QuotaLimit | None:
    """Count the run, once, and return None; or return the limit that forbids it. Days are UTC."""
    day = now().date().isoformat()
    installation = run.repo.installation
    limits = [
        QuotaLimit("person", _stricter(quota.person, settings.quota_person)),
        QuotaLimit("repository", _stricter(quota.repository, settings.quota_repository)),
        QuotaLimit("installation", settings.quota_installation),
    ]
    counted = [f"{installation}@{run.asked_by}", run.repo.full_name, str(installation)]
    ceilings = [limit.runs for limit in limits]
    reached = await lease.storage.quota.claim(run.id, day, counted, ceilings)
    return None if reached is None else limits[reached]


def _stricter(one: int, other: int) -> int:
    """The lower of two limits; 0 means no limit."""
    return min(one, other) if one and other else one or other
