"""Everything the sandbox left on this machine, removed: `capuchin doctor --clean`."""

from __future__ import annotations

from bot.redis_client import open_redis
from bot.runs import Runs
from bot.settings import Settings
from sandbox.engine import Engine


async def clean(settings: Settings, engine: Engine) -> str:
    """Remove the containers of runs that are not active, and every image that is not in use.

    What was done, in a sentence. The next runs build their environments anew.

    Raises:
        SandboxUnavailable: Docker does not answer.
        redis.exceptions.RedisError: which runs are active is not known; nothing was removed.
    """
    async with open_redis(settings.redis_url, timeout=5) as redis:
        active = await Runs(redis, settings.redis_prefix).active()
    containers = await engine.reap(live_runs=active)
    freed = await engine.collect(max_bytes=0)
    return f"{containers} containers removed, {freed / 1e6:.0f} MB of images."
