"""How many runs there may be in a day, of one person, one repository and one installation."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from bot.repo_config.model import Quota
from bot.settings import Settings
from bot.storage.client import run_script
from bot.storage.keys import DAY
from bot.storage.lease import Lease
from bot.types import Run, now

Of = Literal["person", "repository", "installation"]

# All or nothing: a run that is over one limit counts against none. One that counts already, which
# an earlier start of it did, stays.
COUNT: Final = """
for i, key in ipairs(KEYS) do
  local limit = tonumber(ARGV[2 + i])
  if limit > 0 and redis.call('SISMEMBER', key, ARGV[1]) == 0
    and redis.call('SCARD', key) >= limit then return i end
end
for _, key in ipairs(KEYS) do
  redis.call('SADD', key, ARGV[1])
  redis.call('EXPIRE', key, ARGV[2])
end
return 0
"""


class Limit(NamedTuple):
    """What is used up."""

    of: Of
    runs: int
    """In a day."""


async def over_quota(lease: Lease, run: Run, quota: Quota, settings: Settings) -> Limit | None:
    """Count the run, once, or say which limit forbids it. A day is one of UTC."""
    day = now().date().isoformat()
    installation = run.repo.installation
    limits = [
        Limit("person", _lower(quota.person, settings.quota_person)),
        Limit("repository", _lower(quota.repository, settings.quota_repository)),
        Limit("installation", settings.quota_installation),
    ]
    counted = [f"{installation}@{run.asked_by}", run.repo.full_name, str(installation)]
    keys = [lease.keys.quota(of, day) for of in counted]
    args = [run.id, 2 * DAY, *(limit.runs for limit in limits)]
    over = int(await run_script(lease.redis, COUNT, keys, args))
    return limits[over - 1] if over else None


def _lower(one: int, other: int) -> int:
    """The stricter of two limits, of which 0 is none."""
    return min(one, other) if one and other else one or other
