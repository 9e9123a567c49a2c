"""The checks of `capuchin doctor` on this machine and Redis, and `doctor --clean`."""

import asyncio
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Final

from bot.cli import doctor_services
from bot.cli.doctor_services import CheckFailed, HealthCheck
from bot.cli.surroundings import explain_unfit_system
from bot.data.progress import range_of_costs
from bot.data.run import Lane
from bot.git.commits import SigningKey, try_key
from bot.runner.sandbox import FIX_OWNER, GRADE_OWNER, SELECT_OWNER, build_engine
from bot.settings import (
    Settings,
    SettingsError,
    find_missing_certificates,
    find_trimmed_variables,
    find_unknown_variables,
)
from bot.storage.client import REDIS_ERRORS, WritesRefused, describe_redis_error
from bot.storage.storage import Storage
from pipeline.codebase.git import GitFailed
from pipeline.concurrency import gather_all
from pipeline.workflows.plan import price_range
from prompts.text import pluralize
from sandbox.connection_errors import connection_cause
from sandbox.docker.mmdebstrap import BUILD_FOLDER
from sandbox.engine import CleanupResult, Engine
from sandbox.errors import SandboxUnavailable
from sandbox.scratch import remove_stale


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
    async with _open_storage(settings) as storage:
        active = await storage.runs.list_active()
    gone = CleanupResult()
    for engine in engines:
        gone += await engine.clean(live_runs=active)

    def remove_folders() -> int:
        stale = [
            folder
            for name in (".new-*", ".old-*")  # mirrors in creation or deletion
            for folder in settings.data_dir.glob(f"mirrors/*/*/{name}")
            if time.time() - folder.lstat().st_mtime > 3600
        ]
        for folder in stale:
            rmtree(folder, ignore_errors=True)
        return remove_stale({Path(tempfile.gettempdir()), Path(BUILD_FOLDER)}) + len(stale)

    folders = await asyncio.to_thread(remove_folders)
    return (
        f"Removed {pluralize(gone.containers, 'container')}, "
        f"{gone.image_bytes / 1e6:.0f} MB of images and "
        f"{pluralize(folders, 'temporary folder')}."
    )


async def _check_system(_settings: Settings) -> str:
    """Whether this system has what the host's side needs, and its limits hold."""
    if sentence := await asyncio.to_thread(explain_unfit_system):
        raise CheckFailed(sentence, "Run Capuchin's image, or run it on Linux.")
    return f"{platform.system()} {platform.release()}, {platform.machine()}"


async def _check_python(_settings: Settings) -> str:
    return sys.version.split()[0]


async def _check_git(_settings: Settings) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            "git", "--version", stdout=asyncio.subprocess.PIPE
        )
    except OSError:
        raise CheckFailed("not found", "Install git.") from None
    output, _ = await process.communicate()
    found = output.decode().strip().removeprefix("git version ")
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < (2, 40):
        return f"{found}; a hostile repository's patterns are matched faster by 2.40 and later."
    return found


async def _check_environment(_settings: Settings) -> str:
    if missing := find_missing_certificates():
        raise CheckFailed(" ".join(missing), "Fix or unset it; no connection works until then.")
    if unknown := find_unknown_variables():
        raise CheckFailed(" ".join(unknown), "Correct or delete them: they have no effect.")
    return " ".join(["every CAPUCHIN_ variable is known.", *find_trimmed_variables()])


async def _check_disk(settings: Settings) -> str:
    """The free space for mirrors; a large repository may not fit into less than 5 GiB."""
    place = settings.data_dir.absolute()
    while not place.exists():
        place = place.parent
    free = (await asyncio.to_thread(shutil.disk_usage, place)).free
    if free < 5 << 30:
        raise CheckFailed(
            f"{free >> 20} MiB are free at {place}",
            "Free some, with `capuchin doctor --clean` for example, or move CAPUCHIN_DATA_DIR.",
        )
    return f"{free >> 30} GiB are free at {place}"


async def _check_redis(settings: Settings) -> str:
    try:
        async with _open_storage(settings) as storage:
            version = await storage.get_version()
            await storage.check_writes()
            dangers = await storage.find_dangers()
    except WritesRefused as error:
        raise CheckFailed(f"it refuses writes: {error}", "Give it memory and disk.") from None
    except (*REDIS_ERRORS, SettingsError) as error:
        mend = "Start Redis, or set CAPUCHIN_REDIS_URL to one that takes writes."
        raise CheckFailed(describe_redis_error(error), mend) from None
    if dangers:
        raise CheckFailed(
            f"{version}; {'; '.join(dangers)}",
            "Set `appendonly yes` and `maxmemory-policy noeviction` in redis.conf.",
        )
    return version


async def _check_workers(settings: Settings) -> str:
    """The running workers. Without any, it passes: doctor often runs before they start."""
    try:
        async with _open_storage(settings) as storage:
            living = await storage.workers.list_living()
    except (*REDIS_ERRORS, SettingsError):
        raise CheckFailed("unknown without Redis", "Correct Redis first.") from None
    if not living:
        return "none is running: start `capuchin worker`"
    slots = sum(worker.slots.get(Lane.ISSUES, 0) for worker in living)
    busy = sum(worker.busy.get(Lane.ISSUES, 0) for worker in living)
    return f"{len(living)}, working on {busy} of at most {pluralize(slots, 'issue')}"


async def _check_prices(settings: Settings) -> str:
    """The price list, and what the latest fixes cost, if Redis knows some."""
    found = await doctor_services.check_prices(settings)
    with suppress(*REDIS_ERRORS, SettingsError):
        async with _open_storage(settings) as storage:
            ended = [run for run in await storage.run_queries.list_recent() if run.status.final]
        if costs := range_of_costs((run.mode, run.dollars) for run in reversed(ended)):
            found += f"; half of the latest runs for a fix cost {price_range(*costs)}"
    return found


async def check_archive(settings: Settings) -> str:
    from bot.archive import ArchiveUnavailable, ObjectStore

    try:
        await ObjectStore(settings.archive).check()
    except SettingsError as error:
        raise CheckFailed(str(error), "Correct CAPUCHIN_ARCHIVE.") from None
    except ArchiveUnavailable as error:
        mend = "Check CAPUCHIN_ARCHIVE, and AWS_ENDPOINT_URL, AWS_REGION and the keys beside it."
        raise CheckFailed(str(error), mend) from None
    return settings.archive


async def check_signing_key(settings: Settings) -> str:
    key = SigningKey.parse(settings.signing_key)
    try:
        await try_key(key)
    except GitFailed as failure:
        mend = "Give the path of an SSH private key without a passphrase that only its user reads."
        raise CheckFailed(" ".join(failure.words.split()), mend) from None
    return f"signs as {key.email}"


def _open_storage(settings: Settings) -> Storage:
    return Storage.open(settings.redis_url, settings.redis_prefix, timeout=5)


Check = Callable[[Settings], Awaitable[str]]
"""Returns what it found. Raises CheckFailed."""


async def run_checks(settings: Settings, *, serving: bool = True) -> list[HealthCheck]:
    """Run all checks; a failing check does not stop the others.

    Each configured model generates one token, which costs less than a cent. Without `serving`, the
    public address is not tried: nothing answers there yet.
    """

    async def one(name: str, look: Check, seconds: float) -> HealthCheck:
        found, mend = f"no answer in {seconds:.0f} s", "Check that it is reachable."
        try:
            async with asyncio.timeout(seconds):
                return HealthCheck(name=name, works=True, found=await look(settings))
        except CheckFailed as error:
            found, mend = error.found, error.mend
        except TimeoutError:
            pass
        except Exception as error:  # noqa: BLE001 - each check ends in a line, whatever it raises
            cause = connection_cause(error) or " ".join(str(error).split())[:300]
            found, mend = f"{type(error).__name__}: {cause}", "Correct that, and run this again."
        return HealthCheck(name=name, works=False, found=found, mend=mend)

    checks: dict[str, Check] = {
        "system": _check_system,
        "Python": _check_python,
        "git": _check_git,
        "environment": _check_environment,
        "disk": _check_disk,
        "Redis": _check_redis,
        "workers": _check_workers,
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
    if settings.signing_key:
        checks["signing key"] = check_signing_key
    if settings.archive:
        checks["archive"] = check_archive
    optional: dict[str, tuple[str, Check]] = {
        "scout_model": ("scout", partial(doctor_services.check_chat, field="scout_model")),
        "orm_model": ("reward model", partial(doctor_services.check_reward, field="orm_model")),
        "prm_model": ("process reward model", doctor_services.check_process_reward),
    }  # fmt: skip
    asked = {
        "model": partial(doctor_services.check_chat, field="solver_model"),
        "prices": _check_prices,
        **{name: check for field, (name, check) in optional.items() if getattr(settings, field)},
    }
    # The models come last, because loading an SDK would delay the others beyond their timeout, and
    # get more time, because some servers load a model at its first request.
    found = await gather_all(one(name, look, 20) for name, look in checks.items())
    found += await gather_all(one(name, look, 60) for name, look in asked.items())
    return _skip_consequences(found)


_NEEDS: Final = {
    "workers": "Redis",
    "base image": "Docker",
    **dict.fromkeys(("permissions", "webhooks", "fetching", "clock"), "GitHub App"),
}
"""Checks that say nothing where the one that they need has failed."""


def _skip_consequences(checks: Sequence[HealthCheck]) -> list[HealthCheck]:
    """One cause makes one failure."""
    failed = {check.name for check in checks if not check.works}
    return [
        HealthCheck(name=check.name, works=False, skipped=True, found=f"needs {need}")
        if check.name in failed and (need := _NEEDS.get(check.name)) in failed
        else check
        for check in checks
    ]


async def _check_docker(settings: Settings) -> str:
    engine = build_engine(settings)
    try:
        return await engine.check()
    except SandboxUnavailable as error:
        raise CheckFailed(str(error), "Start Docker, or set DOCKER_HOST.") from None
    finally:
        await engine.close()


async def _check_base_image(settings: Settings) -> str:
    from sandbox.docker.base_image import base_reference, image_exists
    from sandbox.docker.docker_client import DockerAddress

    reference = base_reference(settings.sandbox_base)

    def look() -> bool:
        address = DockerAddress()
        try:
            client = address.connect(timeout=10)
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
