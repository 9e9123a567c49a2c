"""`capuchin doctor --clean`: removes leftovers on this machine and in its Docker."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from shutil import rmtree

from bot.runner.sandbox import FIX_OWNER, GRADE_OWNER, SELECT_OWNER, build_engine
from bot.settings import Settings
from bot.storage.storage import Storage
from pipeline.codebase.text import pluralize
from sandbox.docker.mmdebstrap import BUILD_FOLDER
from sandbox.engine import CleanupResult, Engine
from sandbox.scratch import remove_stale

MIRROR_SECONDS = 3600
"""A mirror in creation or deletion for longer was left behind by a dead process."""


async def clean(settings: Settings) -> str:
    """Remove leftovers of workers, `fix` and `select`; return a sentence on what was removed.

    Containers of active runs and images in use stay. An active `fix` or `select` loses its
    container, and continues when it is started again. The next runs rebuild their environments.

    Raises:
        SandboxUnavailable: Docker does not respond.
        redis.exceptions.RedisError: the active runs are unknown; nothing was removed.
    """
    async with AsyncExitStack() as stack:
        engines = [
            build_engine(settings, owner=owner)
            for owner in ("", FIX_OWNER, SELECT_OWNER, GRADE_OWNER)
        ]
        for engine in engines:
            stack.push_async_callback(engine.close)
        return await clean_all(settings, engines)


async def clean_all(settings: Settings, engines: Sequence[Engine]) -> str:
    """Like `clean`, for the given engines."""
    async with Storage.open(settings.redis_url, settings.redis_prefix, timeout=5) as storage:
        active = await storage.runs.list_active()
    gone = CleanupResult()
    for engine in engines:
        gone += await engine.clean(live_runs=active)
    folders = await asyncio.to_thread(_remove_folders, settings.data_dir)
    return (
        f"Removed {pluralize(gone.containers, 'container')}, "
        f"{gone.image_bytes / 1e6:.0f} MB of images and "
        f"{pluralize(folders, 'temporary folder')}."
    )


def _remove_folders(data: Path) -> int:
    places = {Path(tempfile.gettempdir()), Path(BUILD_FOLDER)}
    stale = list(_find_stale_mirrors(data))
    for folder in stale:
        rmtree(folder, ignore_errors=True)
    return remove_stale(places) + len(stale)


def _find_stale_mirrors(data: Path) -> Iterator[Path]:
    """Mirrors whose process died while creating or deleting them."""
    for name in (".new-*", ".old-*"):
        for folder in data.glob(f"mirrors/*/*/{name}"):
            if time.time() - folder.lstat().st_mtime > MIRROR_SECONDS:
                yield folder
