"""Checks of this machine and of Redis: versions, disk, persistence, workers, the environment."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Final

from bot.cli.doctor.types import CheckFailed
from bot.settings import Settings, SettingsError, find_unknown_variables
from bot.storage.client import UNREACHABLE
from bot.storage.storage import Storage
from bot.types import Lane
from pipeline.codebase.text import pluralize

MIN_PYTHON: Final = (3, 11)
REDIS_SECONDS: Final = 5.0
MIN_FREE_BYTES: Final = 5 << 30
"""Of disk: below it a clone or a mirror of a large repository may not fit."""


async def check_python(_settings: Settings) -> str:
    """Python's version."""
    if sys.version_info < MIN_PYTHON:
        raise CheckFailed(sys.version.split()[0], "Install Python 3.11 or newer.")
    return sys.version.split()[0]


async def check_git(_settings: Settings) -> str:
    """git's version."""
    try:
        process = await asyncio.create_subprocess_exec(
            "git", "--version", stdout=asyncio.subprocess.PIPE
        )
    except OSError:
        raise CheckFailed("not found", "Install git.") from None
    output, _ = await process.communicate()
    return output.decode().strip().removeprefix("git version ")


async def check_environment(_settings: Settings) -> str:
    """Whether every variable that begins with CAPUCHIN_ is one of ours."""
    if unknown := find_unknown_variables():
        raise CheckFailed(" ".join(unknown), "Correct or delete them: they have no effect.")
    return "every CAPUCHIN_ variable is known"


async def check_disk(settings: Settings) -> str:
    """Free space where the mirrors of repositories are."""
    place = settings.data_dir.absolute()
    while not place.exists():
        place = place.parent
    free = await asyncio.to_thread(_free_bytes, place)
    if free < MIN_FREE_BYTES:
        raise CheckFailed(
            f"{free >> 20} MiB are free at {place}",
            "Free some, with `capuchin doctor --clean` for example, or move CAPUCHIN_DATA_DIR.",
        )
    return f"{free >> 30} GiB are free at {place}"


def _free_bytes(place: Path) -> int:
    return shutil.disk_usage(place).free


async def check_redis(settings: Settings) -> str:
    """Whether Redis answers and keeps what it is given."""
    try:
        async with _open_storage(settings) as storage:
            version = await storage.get_version()
            dangers = await storage.find_dangers()
    except (*UNREACHABLE, SettingsError) as error:
        raise CheckFailed(str(error), "Start Redis, or set CAPUCHIN_REDIS_URL.") from None
    if dangers:
        raise CheckFailed(
            f"{version}; {'; '.join(dangers)}",
            "Set `appendonly yes` and `maxmemory-policy noeviction` in redis.conf.",
        )
    return version


async def check_workers(settings: Settings) -> str:
    """Which workers live. None is no failure: doctor often runs before they are started."""
    try:
        async with _open_storage(settings) as storage:
            living = await storage.workers.list_living()
    except (*UNREACHABLE, SettingsError):
        raise CheckFailed("unknown without Redis", "Correct Redis first.") from None
    if not living:
        return "none is running: start `capuchin worker`"
    slots = sum(worker.slots.get(Lane.ISSUES, 0) for worker in living)
    busy = sum(worker.busy.get(Lane.ISSUES, 0) for worker in living)
    return f"{len(living)}, working on {busy} of at most {pluralize(slots, 'issue')}"


async def check_archive(settings: Settings) -> str:
    """Whether the archive takes an object, gives it back and deletes it."""
    from bot.archive.object_store import ArchiveUnavailable, ObjectStore

    try:
        await ObjectStore(settings.archive).check()
    except SettingsError as error:
        raise CheckFailed(str(error), "Correct CAPUCHIN_ARCHIVE.") from None
    except ArchiveUnavailable as error:
        mend = "Check CAPUCHIN_ARCHIVE, and AWS_ENDPOINT_URL, AWS_REGION and the keys beside it."
        raise CheckFailed(str(error), mend) from None
    return settings.archive


def _open_storage(settings: Settings) -> Storage:
    return Storage.open(settings.redis_url, settings.redis_prefix, timeout=REDIS_SECONDS)
