"""The checks of `capuchin doctor` on this machine and Redis, and `doctor --clean`."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Final

from bot.cli import doctor_services
from bot.cli.doctor_services import CheckFailed, HealthCheck
from bot.data.run import Lane
from bot.runner.sandbox import FIX_OWNER, GRADE_OWNER, SELECT_OWNER, build_engine
from bot.settings import Settings, SettingsError, find_unknown_variables
from bot.storage.client import UNREACHABLE
from bot.storage.storage import Storage
from pipeline.codebase.text import pluralize
from pipeline.concurrency import gather_all
from sandbox.docker.mmdebstrap import BUILD_FOLDER
from sandbox.engine import CleanupResult, Engine
from sandbox.errors import SandboxUnavailable
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


MIN_FREE_BYTES: Final = 5 << 30
"""With less disk space, a clone or a mirror of a large repository may not fit."""


async def check_python(_settings: Settings) -> str:
    """Python's version."""
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
    """Whether every variable that begins with CAPUCHIN_ is a known setting."""
    if unknown := find_unknown_variables():
        raise CheckFailed(" ".join(unknown), "Correct or delete them: they have no effect.")
    return "every CAPUCHIN_ variable is known"


async def check_disk(settings: Settings) -> str:
    """Free space where the mirrors of repositories are."""
    place = settings.data_dir.absolute()
    while not place.exists():
        place = place.parent
    free = (await asyncio.to_thread(shutil.disk_usage, place)).free
    if free < MIN_FREE_BYTES:
        raise CheckFailed(
            f"{free >> 20} MiB are free at {place}",
            "Free some, with `capuchin doctor --clean` for example, or move CAPUCHIN_DATA_DIR.",
        )
    return f"{free >> 30} GiB are free at {place}"


async def check_redis(settings: Settings) -> str:
    """Whether Redis answers and persists data."""
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
    """The running workers. None is not a failure: doctor often runs before they are started."""
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
    from bot.archive import ArchiveUnavailable, ObjectStore

    try:
        await ObjectStore(settings.archive).check()
    except SettingsError as error:
        raise CheckFailed(str(error), "Correct CAPUCHIN_ARCHIVE.") from None
    except ArchiveUnavailable as error:
        mend = "Check CAPUCHIN_ARCHIVE, and AWS_ENDPOINT_URL, AWS_REGION and the keys beside it."
        raise CheckFailed(str(error), mend) from None
    return settings.archive


def _open_storage(settings: Settings) -> Storage:
    return Storage.open(settings.redis_url, settings.redis_prefix, timeout=5)


TIMEOUT_SECONDS: Final = 20
MODEL_SECONDS: Final = 60
"""Longer, because some servers load a model at its first request."""

Check = Callable[[Settings], Awaitable[str]]
"""What it found. Raises CheckFailed."""


async def run_checks(settings: Settings, *, serving: bool = True) -> list[HealthCheck]:
    """Run all checks; a failing check does not stop the others.

    Each model that is set is asked for one token, which costs less than a cent. Without `serving`
    the public address is not tried: nothing answers there yet.
    """

    async def one(name: str, look: Check, seconds: float) -> HealthCheck:
        try:
            async with asyncio.timeout(seconds):
                return HealthCheck(name=name, works=True, found=await look(settings))
        except CheckFailed as error:
            return HealthCheck(name=name, works=False, found=error.found, mend=error.mend)
        except TimeoutError:
            return HealthCheck(
                name=name,
                works=False,
                found=f"no answer in {seconds:.0f} s",
                mend="Check that it is reachable.",
            )

    checks: dict[str, Check] = {
        "Python": check_python,
        "git": check_git,
        "environment": check_environment,
        "disk": check_disk,
        "Redis": check_redis,
        "workers": check_workers,
        "Docker": _check_docker,
        "base image": _check_base_image,
        "webhook secret": doctor_services.check_webhook_secret,
        "GitHub App": doctor_services.check_app,
        "permissions": doctor_services.check_permissions,
        "webhooks": doctor_services.check_deliveries,
        "fetching": doctor_services.check_fetching,
        "clock": doctor_services.check_clock,
    }
    if serving:
        checks["public address"] = doctor_services.check_public_url
    if settings.archive:
        checks["archive"] = check_archive
    asked = {
        "model": partial(doctor_services.check_chat, field="solver_model"),
        "prices": doctor_services.check_prices,
        **_optional_models(settings),
    }
    # One after the other: loading a model's SDK would hold up the others beyond their time.
    found = await gather_all(one(name, look, TIMEOUT_SECONDS) for name, look in checks.items())
    return [
        *found,
        *await gather_all(one(name, look, MODEL_SECONDS) for name, look in asked.items()),
    ]


def _optional_models(settings: Settings) -> dict[str, Check]:
    """The checks of the optional models that are configured."""
    checks: dict[str, tuple[str, Check]] = {
        "scout_model": ("scout", partial(doctor_services.check_chat, field="scout_model")),
        "embedding_model": ("embedding model", doctor_services.check_embedder),
        "orm_model": ("reward model", partial(doctor_services.check_reward, field="orm_model")),
        "orm_reference": (
            "reference model", partial(doctor_services.check_reward, field="orm_reference"),
        ),
        "prm_model": ("process reward model", doctor_services.check_process_reward),
    }  # fmt: skip
    return {name: check for field, (name, check) in checks.items() if getattr(settings, field)}


async def _check_docker(settings: Settings) -> str:
    engine = build_engine(settings)
    try:
        return await engine.check()
    except SandboxUnavailable as error:
        raise CheckFailed(str(error), "Start Docker, or set CAPUCHIN_DOCKER_URL.") from None
    finally:
        await engine.close()


async def _check_base_image(settings: Settings) -> str:
    from bot.runner.sandbox import docker_address
    from sandbox.docker.base_image import base_reference, image_exists

    reference = base_reference(settings.sandbox_base)

    def look() -> bool:
        address = docker_address(settings)
        try:
            client = address.connect(timeout=TIMEOUT_SECONDS / 2)
            try:
                return image_exists(client, reference)
            finally:
                client.close()
        finally:
            address.close()

    try:
        there = await asyncio.to_thread(look)
    except SandboxUnavailable:
        raise CheckFailed("unknown without Docker", "Correct Docker first.") from None
    if not there:
        given = f" --root {settings.sandbox_base}" if settings.sandbox_base else ""
        mend = f"The first run builds it; or run: python -m sandbox.docker.base_image{given}"
        raise CheckFailed("not built yet", mend)
    return reference
