"""The demo's private Redis, with nothing from earlier demos."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from bot.settings import Settings
from capuchin_demo import environment as redis_server


@asynccontextmanager
async def run_redis(folder: Path) -> AsyncGenerator[str]:
    """A Redis with its files in `folder` until the block ends; its address."""
    prefix = Settings().redis_prefix
    async with redis_server.run_redis(folder, prefix, folder / "findings") as url:
        yield url
