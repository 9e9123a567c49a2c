"""The demo's private Redis, with nothing from earlier demos."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bot.settings import Settings
from capuchin_demo import environment


def run_redis(folder: Path) -> AbstractAsyncContextManager[str]:
    """A Redis with its files in `folder` until the block ends; its address."""
    return environment.run_redis(folder, Settings().redis_prefix, folder / "findings")
